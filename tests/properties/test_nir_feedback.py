"""Only edges that come back are delayed, and enough of them."""

from __future__ import annotations

import nir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nir_bridge import Dynamics
from tests.properties.nir_common import code_of, delayed_labels, network, often
from tests.support.nir_reference import Name, flat_of, topological
from unflatten.testing import nir_graphs


@given(nir_graphs(), st.sampled_from(["source", "target"]))
@often(5)
def test_only_edges_on_cycles(graph: nir.NIRGraph, feedback: str) -> None:
    flat = flat_of(graph)
    delayed = delayed_labels(network(graph, Dynamics(feedback=feedback)), flat)
    topological(flat, delayed)
    following: dict[Name, set[Name]] = {}
    for source, target, _ in flat.edges:
        following.setdefault(source, set()).add(target)
    for source, target, label in flat.edges:
        if label in delayed:
            assert source in reached(target, following), f"{label}\n{code_of(graph)}"


@given(nir_graphs(cycles=False))
@often(2)
def test_none_without_cycles(graph: nir.NIRGraph) -> None:
    assert network(graph).delayed_edges == ()


@given(nir_graphs(), st.sampled_from(["source", "target"]))
@often(2)
def test_no_delay_too_many(graph: nir.NIRGraph, feedback: str) -> None:
    """Each delayed connection is needed: where the delay sits at the edge that comes back, a cycle is left without."""
    flat = flat_of(graph)
    delayed = delayed_labels(network(graph, Dynamics(feedback="target")), flat)
    ends = {(source, target) for source, target, label in flat.edges if label in delayed}
    for pair in ends:
        kept = delayed - {label for source, target, label in flat.edges if (source, target) == pair}
        with pytest.raises(ValueError, match="cycle without delay"):
            topological(flat, kept)


def reached(start: Name, following: dict[Name, set[Name]]) -> set[Name]:
    found: set[Name] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += following.get(name, ())
    return found
