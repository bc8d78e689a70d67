"""Every primitive does what its equation says, with any batch axes, one step at a time and all at once."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nir_bridge import Dynamics
from tests.properties.nir_common import network, often
from tests.support.nir_equations import State, step
from unflatten.testing import dynamics, series
from unflatten.testing.nir import PRIMITIVES, Block, nir_nodes

SHAPES: list[tuple[int, ...]] = [(1,), (3,), (2, 5), (2, 2), (1, 3, 2), (2, 4, 3)]
AXES = {nir.Conv1d: 2, nir.Conv2d: 3, nir.SumPool2d: 3, nir.AvgPool2d: 3}


@st.composite
def blocks(draw: st.DrawFn, kind: type[nir.NIRNode]) -> Block:
    axes = AXES.get(kind)
    fits = [shape for shape in SHAPES if axes in (None, len(shape)) and (kind is not nir.Flatten or len(shape) > 1)]
    return draw(nir_nodes(draw(st.sampled_from(fits)), kind))


def expected_of(block: Block, xs: np.ndarray[Any, Any], rules: Dynamics) -> Any:
    """Each batch element for itself."""
    found = []
    for element in range(xs.shape[1]):
        state: State = {}
        found.append([step(block.node, x, state, rules) for x in xs[:, element]])
    return np.stack([np.stack(values) for values in found], 1)


@pytest.mark.parametrize("kind", PRIMITIVES, ids=[kind.__name__ for kind in PRIMITIVES])
@given(dynamics(), st.data())
@often(1)
def test_equations(kind: type[nir.NIRNode], rules: Dynamics, data: st.DataObject) -> None:
    block = data.draw(blocks(kind))
    graph = nir.NIRGraph(
        {"i": nir.Input(np.array(block.takes)), "n": block.node, "o": nir.Output(np.array(block.gives))},
        [("i", "n"), ("n", "o")],
        type_check=False,
    )
    net = network(graph, rules)
    xs = data.draw(series(net, batch_shape=(2,)))["i"]
    if rules.integration == "event":
        xs = xs * 1.0371  # so that no spike falls on the very end of a step
    expected = expected_of(block, xs.numpy(), rules)
    assume(rules.integration != "event" or np.abs(expected).max() < 1_000)  # more spikes are an error of their own
    for layerwise in (False, True):
        with torch.no_grad():
            ys = net.run(xs, layerwise=layerwise)[0]
        np.testing.assert_allclose(ys.numpy(), expected, rtol=1e-9, atol=1e-9)
    assert ys.shape == (xs.shape[0], 2, *block.gives)
