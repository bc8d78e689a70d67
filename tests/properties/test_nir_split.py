"""A series can be cut anywhere; batches and copies change nothing; states go in and come out."""

from __future__ import annotations

import copy
import pickle

import nir
import torch
from hypothesis import given
from hypothesis import strategies as st

from nir_bridge import Dynamics
from tests.properties.nir_common import code_of, followed, network, often
from unflatten.testing import (
    assert_split_invariant,
    assert_state_round_trip,
    differences,
    dynamics,
    nir_graphs,
    series,
    states,
)
from unflatten.testing.nir.comparing import value_differences

TOLERANCE = 1e-9


@given(nir_graphs(), dynamics(), st.data())
@often(1)
@followed
def test_cuts(graph: nir.NIRGraph, rules: Dynamics, data: st.DataObject) -> None:
    net = network(graph, rules)
    assert_split_invariant(net, data.draw(series(net)), tolerance=TOLERANCE)


@given(nir_graphs(), dynamics(), st.data())
@often(2)
@followed
def test_any_state_is_a_start(graph: nir.NIRGraph, rules: Dynamics, data: st.DataObject) -> None:
    net = network(graph, rules)
    state, xs = data.draw(states(net)), data.draw(series(net))
    before = {path: value.clone() for path, value in state.tensors()}
    with torch.no_grad():
        ys, end = net.run(xs, state, layerwise=False)[:2]
        again, other = net.run(xs, state)[:2]
    assert not value_differences(ys, again, "output", TOLERANCE), code_of(graph, rules)
    assert not value_differences(end, other, "state", TOLERANCE), code_of(graph, rules)
    assert not differences(before, dict(state.tensors())), code_of(graph, rules)
    assert [path for path, _ in end.tensors()] == [path for path, _ in net.initial_state().tensors()]


@given(nir_graphs(), dynamics(), st.data())
@often(1)
@followed
def test_batches(graph: nir.NIRGraph, rules: Dynamics, data: st.DataObject) -> None:
    net = network(graph, rules)
    xs = data.draw(series(net, batch_shape=(2, 1)))
    with torch.no_grad():
        ys = net.run(xs)[0]
        alone = [net.run({name: x[:, at, 0] for name, x in xs.items()})[0] for at in range(2)]
    for at, wanted in enumerate(alone):
        given = {name: y[:, at, 0] for name, y in ys.items()} if isinstance(ys, dict) else ys[:, at, 0]
        assert not value_differences(wanted, given, "output", TOLERANCE), code_of(graph, rules)


@given(nir_graphs(), dynamics(), st.data())
@often(1)
@followed
def test_copies(graph: nir.NIRGraph, rules: Dynamics, data: st.DataObject) -> None:
    net = network(graph, rules)
    xs = data.draw(series(net))
    assert_state_round_trip(net)
    with torch.no_grad():
        ys, state = net.run(xs)[:2]
        for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            again, other = twin.run(xs)[:2]
            assert not value_differences(ys, again, "output"), code_of(graph, rules)
            assert not value_differences(state, other, "state"), code_of(graph, rules)
