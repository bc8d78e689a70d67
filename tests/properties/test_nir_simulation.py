"""Every graph does what a plain simulation of it does, under every rule."""

from __future__ import annotations

import copy

import nir
import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nir_bridge import Dynamics
from tests.properties.nir_common import by_name, code_of, compare, delayed_ends, network, often
from tests.support.nir_reference import graphs_of, simulate
from unflatten.testing import dynamics, nir_graphs, series


def check(graph: nir.NIRGraph, rules: Dynamics, data: st.DataObject) -> None:
    if rules.integration == "event":
        graph = unsettled(graph)
    net = network(graph, rules)
    xs = data.draw(series(net))
    expected = simulate(graph, {name: x.numpy() for name, x in xs.items()}, delayed_ends(net, graph), rules)
    if rules.integration == "event":  # more spikes are an error of their own
        assume(all(np.abs(value).max(initial=0.0) < 1_000 for value in expected.values()))
    with torch.no_grad():
        ys = net.run(xs, layerwise=False)[0]
    wanted = {name[0]: value for name, value in expected.items() if len(name) == 1}
    compare(by_name(graph, ys), wanted, lambda: code_of(graph, rules))


def unsettled(graph: nir.NIRGraph) -> nir.NIRGraph:
    """The graph with gains of integrators that have no neuron spike at the very end of a step.

    There the last bit would decide.
    """
    graph = copy.deepcopy(graph)
    seen: set[int] = set()
    for _, inner in graphs_of(graph, ()):
        for node in inner.nodes.values():
            if isinstance(node, nir.I | nir.IF) and id(node) not in seen:
                seen.add(id(node))
                node.r = node.r * 1.0371
    return graph


@given(nir_graphs(), st.data())
@often(5)
def test_the_default_rules(graph: nir.NIRGraph, data: st.DataObject) -> None:
    check(graph, Dynamics(), data)


@given(nir_graphs(depth=1), dynamics(only_presets=True), st.data())
@often(5)
def test_presets(graph: nir.NIRGraph, rules: Dynamics, data: st.DataObject) -> None:
    check(graph, rules, data)


@given(nir_graphs(depth=1, max_nodes=3, hostile_names=False), dynamics(), st.data())
@often(5)
def test_rules_of_any_kind(graph: nir.NIRGraph, rules: Dynamics, data: st.DataObject) -> None:
    check(graph, rules, data)
