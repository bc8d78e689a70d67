"""What the properties of NIR graphs share."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ParamSpec

import nir
import numpy as np
import torch
from hypothesis import reject, settings

from nir_bridge import Dynamics, NIRModule, from_nir
from nir_bridge.errors import DynamicsError
from nir_bridge.names import escape, split_names
from tests.support.nir_reference import Ends, Name, flat_of
from unflatten.testing.nir.code import graph_code

torch.set_num_threads(1)
P = ParamSpec("P")
SECONDS = 20
"""How long anything about a small graph may take."""


def often(factor: float) -> settings:
    """More or fewer examples than the profile has: these are quick."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=max(round(profile.max_examples * factor), 1))


def followed(test: Callable[P, None]) -> Callable[P, None]:
    """Leaves out examples in which a neuron spikes more often than a step looks for: an error of its own."""

    @functools.wraps(test)
    def tested(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            test(*args, **kwargs)
        except DynamicsError as error:
            if "times in one step" not in str(error):
                raise
            reject()

    return tested


def network(graph: nir.NIRGraph, rules: Dynamics | None = None) -> NIRModule:
    """A network in double precision."""
    made = from_nir(graph, dtype=torch.float64, dynamics=rules or Dynamics())
    assert isinstance(made, NIRModule)
    return made


def delayed_ends(net: NIRModule, graph: nir.NIRGraph) -> set[Ends]:
    """The ends of the delayed edges; what the network calls those edges has to be what the graph calls them."""
    names = dict(paths_of(graph, (), ()))
    units = net.__dict__["@nir"].network.units
    found = {
        (names[units[term.source].path], names[unit.path]) for unit in units for term in unit.terms if term.delayed
    }
    called = {label for source, target, label in flat_of(graph).edges if (source, target) in found}
    assert set(net.delayed_edges) == called, code_of(graph)
    return found


def paths_of(graph: nir.NIRGraph, path: Name, name: Name) -> Iterator[tuple[Name, Name]]:
    """For the path of each node, the names of the graphs that it is in and its own."""
    for own, where in split_names(graph.nodes).items():
        node = graph.nodes[own]
        if isinstance(node, nir.NIRGraph):
            yield from paths_of(node, (*path, *where), (*name, own))
        else:
            yield (*path, *([escape(own)] if isinstance(node, nir.Input | nir.Output) else where)), (*name, own)


def compare(values: dict[str, torch.Tensor], expected: dict[str, Any], shown: Any) -> None:
    """Compares series with those of the simulation, which are of some shape that can be broadcast."""
    for name, given in values.items():
        found = np.asarray(expected[name])  # of a node that nothing feeds there is one number a step
        found = found.reshape(*found.shape, *[1] * (given.dim() - 1)) if found.ndim == 1 else found
        wanted = np.broadcast_to(found, given.shape)
        np.testing.assert_allclose(given.detach().numpy(), wanted, rtol=1e-9, atol=1e-9, err_msg=f"{name}\n{shown()}")


def by_name(graph: nir.NIRGraph, ys: Any) -> dict[str, torch.Tensor]:
    """Outputs by the names of their nodes."""
    return ys if isinstance(ys, dict) else {next(iter(graph.outputs)): ys}


def code_of(graph: nir.NIRGraph, rules: Dynamics | None = None) -> str:
    """What to show of an example."""
    return f"{graph_code(graph)}\n{rules}"


@contextmanager
def bounded() -> Iterator[None]:
    """Fails when what is inside takes too long, instead of hanging.

    Raises:
        TimeoutError: it does.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"still running after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


__all__ = ["bounded", "by_name", "code_of", "compare", "delayed_ends", "flat_of", "followed", "network", "often"]
