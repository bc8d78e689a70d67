"""A network of a graph, and what it gives for a few fixed inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nir
import torch
from torch import Tensor

from nir_bridge import Dynamics, NIRModule, State, from_nir

_PATTERN = (1.0, 0.0, 2.0, -1.0, 0.5, 3.0, -0.25)


@dataclass(frozen=True)
class Run:
    """What came of a run, without gradients."""

    net: NIRModule
    outputs: Any
    state: State


def inputs_of(net: NIRModule, steps: int) -> dict[str, Tensor]:
    """Inputs that differ in every step and element.

    Args:
        net: the network.
        steps: how many.
    """
    plan = net.__dict__["@nir"]
    found = {}
    for number, port in enumerate(plan.ports):
        shape = (steps, *(port.shape or ()))
        size = torch.Size(shape).numel()
        values = [_PATTERN[(at + at // len(_PATTERN) + number) % len(_PATTERN)] for at in range(size)]
        found[port.name] = torch.tensor(values, dtype=plan.dtype, device=plan.device).reshape(shape)
    return found


def run_graph(graph: Any, dynamics: str | Dynamics | None, dtype: torch.dtype, steps: int) -> Run:
    """Imports a graph, or the file of one, and runs it."""
    options: dict[str, Any] = {} if dynamics is None else {"dynamics": dynamics}
    return run_net(from_nir(graph, dtype=dtype, **options), steps)


def run_net(net: NIRModule, steps: int) -> Run:
    """Runs a network in single steps."""
    with torch.no_grad():
        ys, state = net.run(inputs_of(net, steps), layerwise=False)[:2]
    return Run(net, ys, state)


def is_graph(value: Any) -> bool:
    """Whether something is a node of NIR rather than a module."""
    return isinstance(value, nir.NIRNode)
