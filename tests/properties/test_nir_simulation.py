"""Every graph does what a plain simulation of it does, under every rule."""

from __future__ import annotations

import nir
import torch
from hypothesis import given, reject
from hypothesis import strategies as st

from nir_bridge import Dynamics
from tests.properties.nir_common import by_name, code_of, compare, delayed_labels, network, often
from tests.support.nir_reference import flat_of, simulate
from unflatten.testing import dynamics, nir_graphs, series


def check(graph: nir.NIRGraph, rules: Dynamics, data: st.DataObject) -> None:
    if rules.integration == "event" and any(isinstance(node, nir.IF) for node in flat_of(graph).nodes.values()):
        reject()  # where exact times fall on the end of a step, the last bit decides: see test_nir_primitives
    net = network(graph, rules)
    xs = data.draw(series(net))
    expected = simulate(graph, {name: x.numpy() for name, x in xs.items()}, delayed_labels(net, flat_of(graph)), rules)
    with torch.no_grad():
        ys = net.run(xs, layerwise=False)[0]
    wanted = {name[0]: value for name, value in expected.items() if len(name) == 1}
    compare(by_name(graph, ys), wanted, lambda: code_of(graph, rules))


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
