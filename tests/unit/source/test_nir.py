"""NIR networks as source: called as before, step for step the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
import torch.utils._pytree as pytree
from torch.export import Dim

import unflatten
from nir_bridge import from_nir
from tests.support.comparing import differences
from tests.support.nir_graphs import lif
from tests.unit.source.checking import assert_canonical
from unflatten import source


def _graph(nodes: dict[str, Any], edges: list[tuple[str, str]], given: int, out: int) -> nir.NIRGraph:
    ends = {"input": nir.Input({"input": np.array([given])}), "output": nir.Output({"output": np.array([out])})}
    return nir.NIRGraph({**ends, **nodes}, edges)


def _random(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


RECURRENT = _graph(
    {"fc": nir.Affine(_random(3, 4), _random(3)), "lif": lif(3), "rec": nir.Linear(_random(3, 3))},
    [("input", "fc"), ("fc", "lif"), ("lif", "rec"), ("rec", "lif"), ("lif", "output")],
    4,
    3,
)
LAYERS = _graph(
    {
        "fc1": nir.Linear(_random(5, 4)),
        "cuba": nir.CubaLIF(
            tau_syn=np.full(5, 1e-3, np.float32),
            tau_mem=np.full(5, 2e-3, np.float32),
            r=np.full(5, 9.0, np.float32),
            v_leak=np.full(5, 0.125, np.float32),
            v_threshold=np.full(5, 0.5, np.float32),
        ),
        "fc2": nir.Linear(_random(3, 5)),
        "li": nir.LI(tau=np.full(3, 1e-3, np.float32), r=np.ones(3, np.float32), v_leak=np.zeros(3, np.float32)),
    },
    [("input", "fc1"), ("fc1", "cuba"), ("cuba", "fc2"), ("fc2", "li"), ("li", "output")],
    4,
    3,
)


@pytest.mark.parametrize("graph", [RECURRENT, LAYERS], ids=["recurrent", "layers"])
@pytest.mark.parametrize("options", [{}, {"dynamics": "snntorch"}], ids=["nir", "snntorch"])
def test_a_network_is_written_step_for_step(tmp_path: Path, graph: nir.NIRGraph, options: dict[str, Any]) -> None:
    net = from_nir(graph, **options)
    loaded = source.load(source.write(net, tmp_path / "net"))
    assert_canonical(tmp_path / "net")
    assert not differences(dict(net.state_dict()), dict(loaded.state_dict()))
    for batch in (1, 2, 5):
        state, own = None, None
        for x in torch.rand(12, batch, 4, generator=torch.Generator().manual_seed(batch)) * 4:
            y, state = net(x, state)
            given, own = loaded(x, own)
            assert torch.equal(given, y)
            assert not differences(pytree.tree_leaves(state), pytree.tree_leaves(own))


def test_gradients_go_through_spikes(tmp_path: Path) -> None:
    net = from_nir(RECURRENT)
    loaded = source.load(source.write(net, tmp_path / "net"))
    found = []
    for model in (net, loaded):
        state, total = None, torch.zeros(())
        for x in torch.rand(6, 2, 4, generator=torch.Generator().manual_seed(0)) * 4:
            y, state = model(x, state)
            total = total + y.sum()
        total.backward()
        found.append({name: each.grad for name, each in model.named_parameters()})
    torch.testing.assert_close(found[1], found[0])


def test_a_written_step_is_written_as_the_same_text(tmp_path: Path) -> None:
    net = from_nir(RECURRENT)
    loaded = source.load(source.write(net, tmp_path / "net"))
    x = torch.rand(2, 4)
    _, state = loaded(x)
    shapes = ({0: Dim.AUTO}, pytree.tree_map(lambda _: {0: Dim.AUTO}, state))
    program = unflatten.export(loaded, (x, state), dynamic_shapes=shapes)
    assert source.text_of(program) == (tmp_path / "net" / "model.py").read_text()
