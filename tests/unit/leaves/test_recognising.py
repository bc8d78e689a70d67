"""What is recognised, what is not although it is almost the same, and what users add."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from tests.support.comparing import assert_same_run, assert_same_state, capture
from tests.unit.leaves.checking import Around, restored
from unflatten import UnflattenedModule, info, leaves, unflatten
from unflatten.info import known_calls

X = torch.randn(2, 4)


class MyLinear(nn.Linear):
    """A class of a user's own keeps its name."""


class Almost(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


@pytest.mark.parametrize("cls", [MyLinear, Almost])
def test_classes_of_ones_own_are_left_alone(cls: Any) -> None:
    nested = restored(Around(cls(4, 4) if cls is MyLinear else cls(), operator.call), (X,))
    assert isinstance(nested.inner, UnflattenedModule)
    assert info(nested.inner).type_name.endswith(cls.__qualname__)


def edited(model: nn.Module, edit: Any) -> UnflattenedModule:
    program = capture(model, (X,))
    edit(program)
    program.graph_module.recompile()
    nested = unflatten(program)
    assert torch.equal(nested(X), program.module()(X))
    return nested


def linear_of(program: ExportedProgram) -> torch.fx.Node:
    return next(node for node in program.graph.nodes if node.target is torch.ops.aten.linear.default)


def test_a_linear_whose_weight_a_pass_transposed_is_none() -> None:
    def transpose(program: ExportedProgram) -> None:
        node = linear_of(program)
        with program.graph.inserting_before(node):
            turned = program.graph.call_function(torch.ops.aten.t.default, (node.args[1],))
            turned.meta = {**node.meta}
        node.update_arg(1, turned)

    assert isinstance(edited(nn.Sequential(nn.Linear(4, 4)), transpose).get_submodule("0"), UnflattenedModule)


def test_a_linear_without_the_bias_that_it_holds_is_none() -> None:
    def without(program: ExportedProgram) -> None:
        linear_of(program).update_arg(2, None)

    assert isinstance(edited(nn.Sequential(nn.Linear(4, 4)), without).get_submodule("0"), UnflattenedModule)


def test_an_activation_that_a_pass_swapped_is_none() -> None:
    def swap(program: ExportedProgram) -> None:
        for node in program.graph.nodes:
            if node.target is torch.ops.aten.relu.default:
                node.target = torch.ops.aten.tanh.default

    nested = edited(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), swap)
    assert type(nested.get_submodule("0")) is nn.Linear
    assert isinstance(nested.get_submodule("1"), UnflattenedModule)


def test_a_module_with_an_operator_more_that_nothing_uses_is_none() -> None:
    def add(program: ExportedProgram) -> None:
        node = linear_of(program)
        with program.graph.inserting_after(node):
            program.graph.call_function(torch.ops.aten.neg.default, (node,)).meta = dict(node.meta)

    assert isinstance(edited(nn.Sequential(nn.Linear(4, 4)), add).get_submodule("0"), UnflattenedModule)


def test_modules_with_state_of_another_kind_are_none() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    first, second = model[0], model[1]
    bias = first.get_parameter("bias").detach()
    del first.bias
    first.register_buffer("bias", bias)
    second.register_buffer("extra", torch.ones(1))
    nested = unflatten(capture(model, (X,)))
    assert [type(module) is nn.Linear for module in nested.children()] == [False, False, True]
    assert_same_state(model, nested)


def test_hooked_and_patched_modules_are_none() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].register_forward_hook(lambda module, args, result: result * 2)
    nested = unflatten(torch.export.export(model, (X,)))
    assert torch.equal(nested(X), model(X))
    assert type(nested.get_submodule("1")) is nn.Linear


def test_ties_and_several_calls() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(self.b(self.a(x))) + self.a(x.new_ones(3, 4)).sum()

    model = Net()
    nested = unflatten(capture(model, (X,)))
    assert type(nested.a) is type(nested.b) is nn.Linear
    assert nested.a.weight is nested.b.weight
    assert_same_state(model, nested)
    assert_same_run(model, nested, (X,))
    assert len(known_calls(nested, "a")) == 3


def test_everything_can_be_done_with_them() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Sequential(nn.ReLU(), nn.Dropout(0.5))).eval()
    nested = unflatten(capture(model, (X,)))
    for other in (copy.deepcopy(nested), pickle.loads(pickle.dumps(nested)), unflatten(capture(nested, (X,)))):
        assert [type(module) for module in other.modules()][1:] == [type(module) for module in model.modules()][1:]
        assert_same_state(model, other)
        assert_same_run(model, other, (X,))
    copy.deepcopy(nested).get_submodule("0").register_forward_hook(lambda *_: None)
    assert not nested.get_submodule("0")._forward_hooks
    assert nested.double()(X.double()).dtype == torch.float64


def test_alike_modules_share_no_tables() -> None:
    nested = unflatten(capture(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), (X,)))
    first, second = nested.children()
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    first.register_forward_hook(lambda *_: None)
    first.register_buffer("more", torch.ones(1))
    assert not second._forward_hooks
    assert not second._buffers
    assert first.weight is not second.weight


def test_nothing_random_is_drawn_and_nothing_is_left_switched() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    program = capture(model, (X,))
    before = torch.get_rng_state()
    unflatten(program)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_program_keeps_its_guards_and_symbols() -> None:
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(nn.Sequential(nn.Linear(4, 4), nn.Flatten()), (X,), dynamic_shapes=shapes)
    env = program.graph_module.graph.find_nodes(op="placeholder")[-1].meta["val"].shape[0].node.shape_env
    before = len(env.guards), dict(env.replacements), str(program)
    unflatten(program)
    assert (len(env.guards), dict(env.replacements), str(program)) == before


def test_chains_are_sequential_and_what_they_skip_is_an_identity() -> None:
    inner = nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.Sequential(nn.ReLU(), Almost()))
    nested = restored(Around(inner, operator.call), (X,))
    assert [type(module) for module in nested.inner.modules()][:5] == [
        nn.Sequential, nn.Linear, nn.Identity, nn.Sequential, nn.ReLU,
    ]  # fmt: skip
    assert isinstance(nested.inner[-1][1], UnflattenedModule)
    assert len(nested.inner) == 3
    assert_same_run(Around(inner, operator.call), nested, (X,))


def test_a_sequential_that_is_not_called_as_one_is_none() -> None:
    def backwards(module: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
        return module[0](module[1](x))

    nested = restored(Around(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backwards), (X,))
    assert not isinstance(nested.inner, nn.Sequential)


class Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def scale(leaf: leaves.Leaf, cls: type[nn.Module]) -> Iterator[leaves.Proposal]:
    found = leaf.find("mul")
    if found is not None:
        yield leaves.Proposal({"factor": found["other"] + 1})
        yield leaves.Proposal({"factor": found["other"]})


def test_users_register_classes_and_wrong_proposals_do_no_harm() -> None:
    model = nn.Sequential(Scale(2.5), nn.Linear(4, 4))
    with leaves.register(Scale, scale) as registration:
        nested = unflatten(capture(model, (X,)))
        assert nested.get_submodule("0").factor == 2.5
        assert torch.equal(nested(X), model(X))
    registration.remove()
    assert isinstance(unflatten(capture(model, (X,))).get_submodule("0"), UnflattenedModule)


def test_a_users_recogniser_wins_over_the_built_in_one() -> None:
    def other(leaf: leaves.Leaf, cls: type[nn.Module]) -> Iterator[leaves.Proposal]:
        yield leaves.Proposal({"dim": -1})

    model = nn.Sequential(nn.Softmax(dim=-1))
    with leaves.register(nn.Softmax, other):
        assert unflatten(capture(model, (X,))).get_submodule("0").dim == -1


def test_classes_are_found_by_operators_where_the_program_has_none() -> None:
    program = capture(nn.Sequential(nn.Linear(4, 4), nn.GELU("tanh")), (X,))
    for node in program.graph.nodes:
        stack = node.meta.get("nn_module_stack", {})
        node.meta["nn_module_stack"] = {key: (path, "") for key, (path, _) in stack.items()}
    nested = unflatten(program)
    assert [type(module) for module in nested.children()] == [nn.Linear, nn.GELU]


def test_native_leaves_can_be_left_out() -> None:
    nested = unflatten(capture(nn.Sequential(nn.Linear(4, 4)), (X,)), native_leaves=False)
    assert all(isinstance(module, UnflattenedModule) for module in nested.modules())
