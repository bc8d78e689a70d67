"""Only edges that come back are delayed, and enough of them."""

from __future__ import annotations

import nir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nir_bridge import Dynamics
from tests.properties.nir_common import code_of, delayed_ends, network, often
from tests.support.nir_reference import Name, flat_of, topological
from unflatten.testing import nir_graphs


@given(nir_graphs(), st.sampled_from(["source", "target"]))
@often(5)
def test_only_edges_on_cycles(graph: nir.NIRGraph, feedback: str) -> None:
    flat = flat_of(graph)
    delayed = delayed_ends(network(graph, Dynamics(feedback=feedback)), graph)
    topological(flat, delayed)
    following: dict[Name, set[Name]] = {}
    for source, target, _ in flat.edges:
        following.setdefault(source, set()).add(target)
    for source, target in delayed:
        assert source in reached(target, following), f"{source, target}\n{code_of(graph)}"


@given(nir_graphs(cycles=False))
@often(2)
def test_none_without_cycles(graph: nir.NIRGraph) -> None:
    assert network(graph).delayed_edges == ()


@given(nir_graphs())
@often(2)
def test_no_delay_too_many(graph: nir.NIRGraph) -> None:
    """Each delayed connection is needed: where the delay sits at the edge that comes back, a cycle is left without."""
    flat = flat_of(graph)
    delayed = delayed_ends(network(graph, Dynamics(feedback="target")), graph)
    for pair in delayed:
        with pytest.raises(ValueError, match="cycle without delay"):
            topological(flat, delayed - {pair})


def reached(start: Name, following: dict[Name, set[Name]]) -> set[Name]:
    found: set[Name] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += following.get(name, ())
    return found
