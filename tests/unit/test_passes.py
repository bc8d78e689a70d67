"""Graphs that passes have edited: reordered, merged, moved, cut, with operators added, deleted or bare."""

from __future__ import annotations

import copy
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._functorch.compile_utils import fx_graph_cse
from torch.export import ExportedProgram

from tests.support.comparing import assert_same_run, assert_same_state, capture, differences
from tests.support.reordering import ORDERS, reorder
from unflatten import info, unflatten
from unflatten.modules import UnflattenedModule

X = torch.randn(2, 3)


class Block(nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        self.seen += 1
        return x + torch.relu(self.a(h)) * mask + self.b(h) / self.seen


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = (x > 0).to(x.dtype) + 1
        for block in self.blocks:
            x = self.drop(block(x, mask))
        x = self.blocks[1](x, mask) + torch.rand(2, 3)
        return self.out(x), mask


def codes(module: nn.Module) -> dict[str, str]:
    return {name: info(inner).code for name, inner in module.named_modules() if isinstance(inner, UnflattenedModule)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ORDERS)
def test_reordered_graphs_give_the_same_modules_and_results(how: str, seed: int) -> None:
    torch.manual_seed(0)
    model = Net()
    program = capture(model, (X,))
    expected = unflatten(program)
    reordered = capture(model, (X,))
    reorder(reordered, how, random.Random(seed))
    given = unflatten(reordered)
    assert codes(given) == codes(expected)
    assert_same_state(expected, given)
    assert_same_run(expected, given, (X,))


class Part(nn.Module):
    def __init__(self, k: float) -> None:
        super().__init__()
        self.k, self.w = k, nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        early = torch.exp(x).cumsum(0) + 1
        late = torch.sin(x).cumsum(0) - 1
        return early * self.w + late * self.k


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l, self.r = Part(1.0), Part(2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.l(x) * self.r(x) + torch.exp(x)


def merge(program: ExportedProgram, pairs: Callable[[list[fx.Node]], list[tuple[fx.Node, fx.Node]]]) -> None:
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    for kept, gone in pairs(nodes):
        gone.replace_all_uses_with(kept)
        program.graph.erase_node(gone)
    program.graph.lint()
    program.graph_module.recompile()


@pytest.mark.parametrize("preserved", [(), ("l", "r")])
def test_common_subexpressions_merged_across_modules(preserved: tuple[str, ...]) -> None:
    model = Parts()
    program = capture(model, (X,), preserve_module_call_signature=preserved)
    program.graph_module.graph = fx_graph_cse(program.graph_module.graph)
    program.graph_module.recompile()
    nested = unflatten(program)
    assert_same_state(model, nested)
    assert_same_run(model, nested, (X,))


def test_calls_that_wait_for_each_other_are_taken_apart() -> None:
    def crosswise(nodes: list[fx.Node]) -> list[tuple[fx.Node, fx.Node]]:
        of = {kind: [node for node in nodes if node.target == kind] for kind in (torch.ops.aten.cumsum.default,)}
        first, second, third, fourth = of[torch.ops.aten.cumsum.default]
        program.graph.inserting_before(first)
        first.prepend(fourth)
        for needed in fourth.all_input_nodes:
            if needed.op == "call_function":
                fourth.prepend(needed)
        return [(first, third), (fourth, second)]

    model = Parts()
    program = capture(model, (X,))
    merge(program, crosswise)
    nested = unflatten(program)
    assert_same_state(model, nested)
    assert_same_run(model, nested, (X,))


class Sides(nn.Module):
    """Two modules side by side, which a pass can make wait for each other."""

    def __init__(self, extra: bool = False) -> None:
        super().__init__()
        self.a, self.b = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Linear(3, 3)
        self.extra = extra

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) + self.b(x) + (x.shape[0] if self.extra else 0)


def test_a_call_that_a_pass_made_depend_on_what_depends_on_it_is_cut() -> None:
    program = capture(Sides(), (X,))
    first, second, other, *_ = (node for node in program.graph.nodes if node.op == "call_function")
    first.append(other)
    other.update_arg(0, first)
    second.update_arg(0, other)
    program.graph_module.recompile()
    nested = unflatten(program)
    assert torch.equal(nested(X), program.module()(X))
    assert len(info(nested.a).calls) == 2
    assert all(call.cut for call in info(nested.a).calls)
    assert "had to run before and after" in str(info(nested.a))


def test_numbers_of_numbers_take_linear_time_where_calls_are_tangled() -> None:
    program = torch.export.export(Sides(extra=True), (X,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    first, second, other = (node for node in program.graph.nodes if node.target is torch.ops.aten.linear.default)
    size = next(node for node in program.graph.nodes if node.target is torch.ops.aten.sym_size.int)
    first.append(other)
    other.update_arg(0, first)
    first.prepend(size)
    left = right = size
    for _ in range(60):  # twice as many ways from the last to the first with each
        with program.graph.inserting_before(first):
            left, right = (program.graph.call_function(fn, (left, right)) for fn in (operator.sub, operator.add))
        left.meta, right.meta = dict(size.meta), dict(size.meta)
    with program.graph.inserting_before(second):
        scaled = program.graph.call_function(torch.ops.aten.mul.Tensor, (other, left))
    scaled.meta = dict(second.meta)
    second.update_arg(0, scaled)
    program.graph_module.recompile()
    nested = unflatten(program)
    assert torch.equal(nested(X), program.module()(X))
    assert len(info(nested.a).calls) == 2


def test_operators_without_any_metadata_join_their_neighbours() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    program = capture(model, (X,))
    for node in list(program.graph.nodes):
        if node.target == torch.ops.aten.linear.default:
            with program.graph.inserting_after(node):
                scaled = program.graph.call_function(torch.ops.aten.mul.Tensor, (node, 2.0))
            node.replace_all_uses_with(scaled, lambda user, scaled=scaled: user is not scaled)
    program.graph_module.recompile()
    nested = unflatten(program)
    assert torch.equal(nested(X), program.module()(X))
    assert torch.equal(nested.get_submodule("0")(X), model[0](X) * 2)


@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_metadata_lost_on_some_operators(share: float, seed: int) -> None:
    torch.manual_seed(0)
    model, draw = Net().eval(), random.Random(seed)
    program = capture(model, (X,))
    for node in program.graph.nodes:
        if node.op == "call_function" and draw.random() < share:
            node.meta.clear()
    nested = unflatten(program)
    assert_same_state(model, nested)
    assert_same_run(program.module(), nested, (X,))


@pytest.mark.parametrize("seed", range(8))
def test_scopes_swapped_at_random_still_compute_the_same(seed: int) -> None:
    torch.manual_seed(0)
    draw = random.Random(seed)
    program = capture(Net().eval(), (X,))
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    for node in draw.sample(nodes, 5):
        node.meta["nn_module_stack"] = draw.choice(nodes).meta["nn_module_stack"]
    nested = unflatten(program)
    assert_same_run(program.module(), nested, (X,))


def test_an_unused_operator_stays_in_the_program() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.relu(x)
            return torch.func.vmap(lambda row: self.fc(row) * 2)(x)

    model = Outer()
    program = capture(model, (X,))
    before = [(node.name, node.op, str(node.target), dict(node.meta)) for node in program.graph.nodes]
    meta, state = dict(program.graph_module.meta), dict(program.state_dict)
    first, second = unflatten(program), unflatten(program)
    first(X)
    assert [(node.name, node.op, str(node.target), dict(node.meta)) for node in program.graph.nodes] == before
    assert program.graph_module.meta == meta
    assert program.state_dict == state
    assert not differences(program.module()(X), second(X))
    copy.deepcopy(program)
    assert_same_run(model, first, (X,))


def test_quantise_and_dequantise_around_every_linear() -> None:
    from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib  # noqa: F401

    ops: Any = torch.ops.quantized_decomposed
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    program = capture(model, (X,))
    for node in list(program.graph.nodes):
        if node.target == torch.ops.aten.linear.default:
            for at in (0, 1):
                source = node.args[at]
                with program.graph.inserting_before(node):
                    grid = (0.05, 0, -128, 127, torch.int8)
                    small = program.graph.call_function(ops.quantize_per_tensor.default, (source, *grid))
                    back = program.graph.call_function(ops.dequantize_per_tensor.default, (small, *grid))
                for made in (small, back):
                    made.meta = {**node.meta, "val": source.meta["val"]}
                node.update_arg(at, back)
    program.graph_module.recompile()
    nested = unflatten(program)
    assert torch.equal(nested(X), program.module()(X))
    assert_same_state(model, nested)
