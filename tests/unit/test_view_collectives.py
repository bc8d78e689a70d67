"""Graphs with collectives, as sharded training makes them: phases, buckets, prefetching."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, fx, nn
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.support import capturing
from tests.support.comparing import differences
from tests.support.sharded import ShardedStack, group_name
from unflatten import GraphView
from unflatten.errors import EmptySelectionError, IllegalMoveError, ViewError
from unflatten.view.values import Kind, Phase

c10d = torch.ops._c10d_functional
STARTS = ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce")


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


@pytest.fixture
def view() -> GraphView:
    torch.manual_seed(0)
    args = (torch.randn(2, 8),)
    return GraphView(copy.deepcopy(capturing.joint(capturing.by_dynamo(ShardedStack(), args), args)))


class TwoRanks(fx.Interpreter):
    """Runs collectives as if the other rank held twice, or half, of what this one does."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is c10d.all_gather_into_tensor.default:
            return torch.cat([args[0], 2 * args[0]])
        if target is c10d.reduce_scatter_tensor.default:
            return args[0].chunk(2)[0] * 0.75
        if target is c10d.all_reduce.default:
            return args[0] * 1.5
        return args[0] if target is c10d.wait_tensor.default else super().call_function(target, args, kwargs)


def _results(module: fx.GraphModule) -> Any:
    torch.manual_seed(0)
    given = [torch.randn(node.meta["val"].shape) for node in module.graph.find_nodes(op="placeholder")]
    return TwoRanks(module).run(*given, enable_io_processing=False)


def test_all_collectives_have_their_phase_and_module(view: GraphView) -> None:
    found = [(view.owner(node), node) for node in view.graph.nodes if view.owner(node).kind is Kind.COLLECTIVE]
    assert len(found) == 48
    for owner, node in found:
        source = node.all_input_nodes[0] if node.target is c10d.wait_tensor.default else node
        gathers = source.target is c10d.all_gather_into_tensor.default
        assert owner.phase is (Phase.FORWARD if gathers else Phase.BACKWARD)
        assert owner.path.name in ("a", "b")


def test_buckets_of_a_layer(view: GraphView) -> None:
    before = _results(view.module)
    made = view.bucket(["layers.*"])
    view.graph.lint()
    assert differences(before, _results(view.module)) == []
    assert [view.owner(node).phase for node in made] == [Phase.FORWARD, Phase.BACKWARD] * 3
    assert [str(view.owner(node).path) for node in made] == [f"layers.{layer}" for layer in range(3) for _ in range(2)]
    assert len(view.find(op="all_gather_into_tensor")) == 3
    assert len(view.find(op="reduce_scatter_tensor")) == 3
    assert made[0].meta["val"].shape == (144,)


def test_one_operator_only(view: GraphView) -> None:
    before = _results(view.module)
    assert len(view["layers.0"].bucket("reduce_scatter_tensor")) == 1
    assert differences(before, _results(view.module)) == []
    assert len(view.find(op="all_gather_into_tensor")) == 12


def test_all_reduce() -> None:
    class Reduced(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            name = group_name()
            x, y = c10d.all_reduce(x * 2, "sum", name), c10d.all_reduce(y + 1, "sum", name)
            return c10d.wait_tensor(x) @ c10d.wait_tensor(y)

    view = GraphView(torch.export.export(Reduced(), (torch.randn(2, 3), torch.randn(3, 4))).graph_module)
    before = _results(view.module)
    assert len(view.root.bucket("all_reduce")) == 1
    assert differences(before, _results(view.module)) == []


def test_plans_that_make_no_sense_are_refused(view: GraphView) -> None:
    names = [node.name for node in view.graph.nodes]
    with pytest.raises(EmptySelectionError, match="all_reduce is in none"):
        view["layers.0"].bucket("all_reduce")
    with pytest.raises(EmptySelectionError):
        view.bucket([])
    with pytest.raises(ViewError, match="'all_gather_into_tensor' is in two of the parts"):
        view.bucket(["layers.0", "layers.*.a"])
    with pytest.raises(ViewError, match="'gather' is no collective"):
        view.root.bucket("gather")
    assert [node.name for node in view.graph.nodes] == names


def test_a_collective_that_needs_another_is_refused() -> None:
    class Chained(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            name = group_name()
            x = c10d.wait_tensor(c10d.all_reduce(x * 2, "sum", name))
            return c10d.wait_tensor(c10d.all_reduce(x + 1, "sum", name))

    view = GraphView(torch.export.export(Chained(), (torch.randn(2, 3),)).graph_module)
    names = [node.name for node in view.graph.nodes]
    with pytest.raises(IllegalMoveError, match="wait_tensor -> add -> all_reduce_1"):
        view.root.bucket()
    assert [node.name for node in view.graph.nodes] == names


def test_prefetching_moves_the_chain_only(view: GraphView) -> None:
    before = _results(view.module)
    names = [node.name for node in view.graph.nodes]
    gathers = view.find(path="layers.1", op="all_gather_into_tensor")
    with pytest.raises(IllegalMoveError, match="all ranks have to start collectives in the same order"):
        view["layers.0"].forward.hoist(gathers)
    assert [node.name for node in view.graph.nodes] == names
    moved = view["layers.0"].forward.hoist(gathers, reorder_collectives=True)
    view.graph.lint()
    assert moved == list(gathers)
    rest = [node.name for node in view.graph.nodes if node not in moved]
    assert rest == [name for name in names if name not in {node.name for node in moved}]
    assert differences(before, _results(view.module)) == []
