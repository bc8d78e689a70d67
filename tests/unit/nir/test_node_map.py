"""Factories of modules in place of the defaults."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch
from torch import nn

from nir_bridge import NodeMap, from_nir
from nir_bridge.errors import NodeMapError, UnmappedNodeError
from tests.support.nir_graphs import gain, graph, lif, sink, source


class Adds(nn.Module):
    """Keeps the sum of its inputs."""

    def forward(self, x: Any, state: Any = None) -> Any:
        total = x if state is None else state + x
        return total, total


class Wrong(nn.Module):
    """Takes a state and returns none."""

    def forward(self, x: Any, state: Any = None) -> Any:
        return 2 * x


class Pair(nn.Module):
    """Takes no state and returns one."""

    def forward(self, x: Any) -> Any:
        return x, x


class TooMany(nn.Module):
    def forward(self, x: Any, y: Any, z: Any) -> Any:
        return x


class Custom(nir.NIRNode):  # type: ignore[misc]
    """A node of a type of its own."""

    def __init__(self) -> None:
        self.input_type = {"input": np.array([1])}
        self.output_type = {"output": np.array([1])}
        self.metadata: dict[str, Any] = {}


def chain(node: nir.NIRNode) -> nir.NIRGraph:
    return graph([("i", "n"), ("n", "o")], n=node)


def test_a_factory_wins_over_the_default() -> None:
    node_map = NodeMap({nir.LIF: lambda node: nn.ReLU()})

    @node_map.register(nir.I)
    def make_i(node: nir.I) -> nn.Module:
        return Adds()

    assert list(node_map) == [nir.LIF, nir.I]
    assert len(node_map) == 2
    assert node_map[nir.I] is make_i
    net = from_nir(chain(nir.I(np.ones(1))), node_map)
    assert net.run(torch.ones(3, 1))[0][:, 0].tolist() == [1.0, 2.0, 3.0]
    assert net.run(torch.ones(3, 1), layerwise=False)[0][:, 0].tolist() == [1.0, 2.0, 3.0]


def test_the_nearest_base_counts_and_none_leaves_the_default() -> None:
    class Mine(nir.LIF):  # type: ignore[misc]
        pass

    one = np.ones(1)
    mine = Mine(one * 1e-3, one, one * 0, one)
    assert type(from_nir(chain(mine)).n).__name__ == "LIF"
    assert isinstance(from_nir(chain(mine), {nir.NIRNode: lambda node: nn.ReLU()}).n, nn.ReLU)
    assert isinstance(
        from_nir(chain(mine), {nir.LIF: lambda node: nn.ReLU(), nir.NIRNode: lambda node: Adds()}).n, nn.ReLU
    )
    assert type(from_nir(chain(mine), {nir.LIF: lambda node: None}).n).__name__ == "LIF"


def test_nested_graphs_can_be_mapped() -> None:
    inner = nir.NIRGraph({"i": source(1), "l": gain(2), "o": sink(1)}, [("i", "l"), ("l", "o")])
    made = chain(inner)
    assert from_nir(made)(torch.ones(1))[0].item() == 2.0
    net = from_nir(made, {nir.NIRGraph: lambda node: nn.Linear(1, 1, bias=False)})
    assert isinstance(net.n, nn.Linear)


@pytest.mark.parametrize(
    "make",
    [lambda: nn.RNN(3, 3), lambda: nn.LSTM(3, 3), lambda: nn.GRU(3, 3, batch_first=True), lambda: nn.LSTMCell(3, 3)],
)
def test_the_recurrent_family_takes_steps(make: Any) -> None:
    made = nir.NIRGraph({"i": source(3), "r": gain(1, 3), "o": sink(3)}, [("i", "r"), ("r", "o")])
    net = from_nir(made, {nir.Linear: lambda node: make()})
    xs = torch.randn(5, 2, 3)
    ys, _ = net.run(xs)
    inner = net.r.inner
    if isinstance(inner, nn.RNNBase):
        expected = inner(xs.movedim(0, 1))[0].movedim(0, 1) if inner.batch_first else inner(xs)[0]
        torch.testing.assert_close(ys, expected)
    assert ys.shape == (5, 2, 3)
    assert net(xs[0, 0])[0].shape == (3,)


@pytest.mark.parametrize(
    ("make", "named"), [(Wrong, "Wrong.*'n'"), (Pair, "Pair.*'n'"), (TooMany, "TooMany.*'n'"), (int, "int")]
)
def test_what_factories_may_not_make(make: Any, named: str) -> None:
    with pytest.raises(NodeMapError, match=named):
        from_nir(chain(lif()), {nir.LIF: lambda node: make()})


def test_what_can_not_be_mapped() -> None:
    with pytest.raises(NodeMapError, match=r"nir\.LIF"):
        NodeMap({int: nn.ReLU})
    with pytest.raises(NodeMapError, match="can't be called"):
        NodeMap({nir.LIF: 3})  # type: ignore[dict-item]


def test_unknown_nodes_are_listed_with_the_fix() -> None:
    with pytest.raises(UnmappedNodeError, match=r"'n' of type Custom.*AvgPool2d.*NodeMap\(\{Custom: "):
        from_nir(chain(Custom()))
    assert from_nir(chain(Custom()), {Custom: lambda node: nn.ReLU()})(torch.ones(1))[0].item() == 1.0
