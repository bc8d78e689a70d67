"""Small torch models to be written as NIR graphs, and how to compare what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import torch
from torch import nn

from nir_bridge import from_nir, to_nir


def model(forward: Callable[..., Any], **children: nn.Module) -> nn.Module:
    """A module of a class of its own with a forward and children."""
    made: nn.Module = type("Model", (nn.Module,), {"forward": forward})()
    for name, child in children.items():
        made.add_module(name, child)
    return made


def neuron(size: int = 4, threshold: float = 0.3) -> nn.Module:
    """A neuron with an explicit state."""
    fields = {"tau": 5e-4, "r": 5.0, "v_leak": 0.0, "v_threshold": threshold, "v_reset": 0.0}
    made: nn.Module = from_nir(nir.LIF(**{name: np.full(size, value, np.float32) for name, value in fields.items()}))
    return made


def kinds(graph: nir.NIRGraph) -> dict[str, str]:
    """The types of the nodes by name, with those of graphs inside under their paths."""
    found = {}
    for name, node in graph.nodes.items():
        found[name] = type(node).__name__
        if isinstance(node, nir.NIRGraph):
            found.update({f"{name}/{inner}": kind for inner, kind in kinds(node).items()})
    return found


def difference(module: nn.Module, *args: torch.Tensor, **options: Any) -> float:
    """How far the outputs of a model, and of its graph read again, are apart."""
    read = from_nir(to_nir(module, args=args, **options))
    with torch.no_grad():
        wanted, (given, _) = module(*args), read(*args)
    pairs = [(wanted, given)]
    if isinstance(given, dict):
        pairs = list(zip(wanted.values() if isinstance(wanted, dict) else wanted, given.values(), strict=True))
    for one, other in pairs:
        assert one.shape == other.shape
    return max(float((one - other).abs().max()) for one, other in pairs)
