"""Calling networks: which arguments are taken for what; states, and what is said of wrong ones."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch

from nir_bridge import from_nir
from nir_bridge.errors import CallError, ShapeError, StateError
from nir_bridge.state import State

X = torch.ones(2, 4)


def lif(size: int = 4) -> nir.NIRNode:
    return nir.LIF(*[np.full(size, value, np.float32) for value in (5e-4, 5.0, 0.0, 0.3)])


def one() -> Any:
    return from_nir(nir.NIRGraph.from_list(nir.Linear(np.eye(4, dtype=np.float32)), lif()))


def two() -> Any:
    ends = {"i": nir.Input(np.array([4])), "j": nir.Input(np.array([4])), "o": nir.Output(np.array([4]))}
    return from_nir(nir.NIRGraph({**ends, "l": lif()}, [("i", "l"), ("j", "l"), ("l", "o")]))


def test_a_state_goes_last_or_by_name() -> None:
    net = one()
    _, state = net(X)
    after = net(X, state)[1].lif.v
    for again in (net(X, state=state), net(input=X, state=state)):
        assert torch.equal(again[1].lif.v, after)
    assert torch.equal(net(X, None)[1].lif.v, state.lif.v)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: one()(X, y=X), CallError, "there is no input 'y'"),
        (lambda: one()(X, input=X), CallError, "input 'input' is given twice"),
        (lambda: two()(X), CallError, "input 'j' is missing"),
        (lambda: two()(X, torch.ones(3, 4)), ShapeError, r"batch axes: \(2,\) of 'i', \(3,\) of 'j'"),
        (lambda: two()(X, X, one()(X)[1]), StateError, "l is missing\n  - 'lif' is no part of the network"),
        (lambda: one()(X)[1]["lif.v.more"], StateError, "nothing at 'lif.v.more'; it has lif"),
    ],
)
def test_what_calls_say(call: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        call()


def test_states_of_anything() -> None:
    state = State(a=(torch.ones(2), [torch.ones(1)]), n=None, b=State(c=torch.ones(3)))
    twice = state.map(lambda tensor: tensor * 2)
    assert torch.equal(twice.a[0], torch.full((2,), 2.0))
    assert torch.equal(twice.a[1][0], torch.full((1,), 2.0))
    assert twice.n is None
    assert torch.equal(twice["b.c"], torch.full((3,), 2.0))
    assert [name for name, _ in state.tensors()] == ["b.c"]
