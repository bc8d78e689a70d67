"""What holds of every NIR graph, compared with a plain simulation."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import nir
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nir_bridge import from_nir
from tests.properties.nir_graphs import graphs, shuffled
from tests.support.nir_reference import flat_of, simulate

STEPS = 6
XS = np.array([1.0, 0.0, 2.0, -1.0, 0.5, 3.0])[:, None]


def series(graph: nir.NIRGraph, **options: Any) -> tuple[torch.Tensor, Any, Any]:
    """A network, and what it gives for a fixed series, and its last state."""
    net = from_nir(graph, dtype=torch.float64)
    with torch.no_grad():
        ys, state = net.run(torch.from_numpy(XS), **options)
    return ys, state, net


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_equals_a_plain_simulation(graph: nir.NIRGraph) -> None:
    ys, _, net = series(graph)
    values = simulate(graph, {"in": XS}, set(net.delayed_edges))
    np.testing.assert_allclose(ys.numpy(), values["out"], atol=1e-9)


@given(graphs())
@settings(max_examples=75, deadline=None)
def test_single_steps_equal_stages(graph: nir.NIRGraph) -> None:
    ys, state, _ = series(graph)
    stepped, stepped_state, _ = series(graph, layerwise=False)
    torch.testing.assert_close(ys, stepped)
    assert [path for path, _ in state.tensors()] == [path for path, _ in stepped_state.tensors()]
    for (_, a), (_, b) in zip(state.tensors(), stepped_state.tensors(), strict=True):
        torch.testing.assert_close(a, b)


@given(graphs(), st.randoms(use_true_random=False))
@settings(max_examples=75, deadline=None)
def test_order_changes_nothing(graph: nir.NIRGraph, random: Any) -> None:
    ys, _, net = series(graph, layerwise=False)
    others, _, other = series(shuffled(graph, random), layerwise=False)
    assert torch.equal(ys, others)
    assert net.delayed_edges == other.delayed_edges
    assert net.print_readable() == other.print_readable()
    assert list(net.state_dict()) == list(other.state_dict())


@given(graphs())
@settings(max_examples=40, deadline=None)
def test_a_file_changes_nothing(graph: nir.NIRGraph) -> None:
    ys, _, net = series(graph)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nir"
        nir.write(path, graph)
        read = from_nir(path, dtype=torch.float64)
    assert torch.equal(read.run(torch.from_numpy(XS))[0], ys)
    assert read.print_readable() == net.print_readable()


@given(graphs())
@settings(max_examples=75, deadline=None)
def test_only_edges_on_cycles_are_delayed(graph: nir.NIRGraph) -> None:
    delayed = set(from_nir(graph).delayed_edges)
    flat = flat_of(graph)
    following: dict[str, set[str]] = {}
    for source, target, _ in flat.edges:
        following.setdefault(source, set()).add(target)
    for source, target, label in flat.edges:
        if label in delayed:
            reached, pending = set(), [target]
            while pending:
                name = pending.pop()
                if name not in reached:
                    reached.add(name)
                    pending += following.get(name, ())
            assert source in reached


@given(graphs())
@settings(max_examples=25, deadline=None)
def test_pickles_and_batches(graph: nir.NIRGraph) -> None:
    ys, _, net = series(graph)
    copied = pickle.loads(pickle.dumps(net))
    assert torch.equal(copied.run(torch.from_numpy(XS))[0], ys)
    batch = torch.from_numpy(np.stack([XS, 2 * XS], 1))
    torch.testing.assert_close(net.run(batch)[0][:, 0], ys)
    torch.testing.assert_close(net.run(batch.movedim(0, 1), time_dim=1)[0][0], ys)
