"""Regions cut out, replaced, folded, and nodes moved: results stay the same bit for bit, or nothing happens."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx, nn

from tests.support import capturing
from tests.support.comparing import differences
from tests.support.running import results_of, values_of
from tests.support.trainable import MODELS
from unflatten import GraphView
from unflatten.errors import EmptySelectionError, IllegalMoveError, ViewError
from unflatten.view.region import Region
from unflatten.view.values import Kind

aten = torch.ops.aten


def _joint(name: str) -> fx.GraphModule:
    model, args = MODELS[name]()
    return capturing.joint(capturing.by_dynamo(model, args), args)


@pytest.fixture(scope="module")
def captured() -> dict[str, fx.GraphModule]:
    return {name: _joint(name) for name in MODELS}


def _regions(view: GraphView) -> list[Region]:
    calls = [call for path in view.index.children for call in (view[str(path)].calls or (view[str(path)],))]
    phased = [each for call in calls for each in (call.forward, call.backward, call.recompute)]
    return [region for region in phased if region.nodes]


@pytest.mark.parametrize("name", list(MODELS))
def test_every_region_runs_alone(name: str, captured: dict[str, fx.GraphModule]) -> None:
    view = GraphView(captured[name])
    known = values_of(view.module)
    with view.unchanging():
        for region in _regions(view):
            alone = region.extract()
            given = {node.name: known[_by_name(view)[node.name]] for node in alone.graph.find_nodes(op="placeholder")}
            got = alone(**{name: copy.copy(value) for name, value in given.items()})
            assert list(got) == [port.name for port in region.outputs]
            expected = {port.name: known[port.node] for port in region.outputs}
            assert differences(expected, got) == []


def _by_name(view: GraphView) -> dict[str, fx.Node]:
    return {node.name: node for node in view.index.nodes}


def test_an_extracted_region_has_a_view_of_its_own(captured: dict[str, fx.GraphModule]) -> None:
    view = GraphView(captured["transformer"])
    alone = GraphView(view["layers.0"].extract())
    assert repr(alone["layers.0"]) == repr(view["layers.0"])


@pytest.mark.parametrize("path", ["layers.0.mlp", "layers.1.attn", "layers.0", "norm"])
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_outline_and_inline(path: str, phase: str, captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["transformer"])
    view = GraphView(module)
    before, tree = results_of(module), repr(view)
    call = getattr(view[path], phase).outline()
    module.graph.lint()
    assert call.op == "call_module"
    assert differences(before, results_of(module)) == []
    assert call in getattr(view[path], phase).nodes
    view.inline(call)
    module.graph.lint()
    assert differences(before, results_of(module)) == []
    assert repr(view) == tree
    assert not [name for name, _ in module.named_children()]


def test_replace_by_a_function_and_a_module(captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["transformer"])
    view = GraphView(module)
    before = results_of(module)
    region = view["layers.0.mlp.1"].forward
    assert [port.name for port in region.inputs] == ["view_12"]
    made = region.replace(torch.nn.functional.gelu)
    assert differences(before, results_of(module)) == []
    assert region.nodes == (made,)
    again = region.replace(nn.GELU())
    module.graph.lint()
    assert differences(before, results_of(module)) == []
    assert isinstance(module.get_submodule(str(again.target)), nn.GELU)


def test_a_region_that_can_not_run_as_one_is_left_alone(captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["odd"])
    view = GraphView(module)
    names = [node.name for node in module.graph.nodes]
    with pytest.raises(IllegalMoveError, match=r"can't run as one: \w+ -> \w+.*, and \w+ -> \w+"):
        view.shared.forward.outline()
    assert [node.name for node in module.graph.nodes] == names


def test_hoisting_moves_only_what_has_to(captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["transformer"])
    view = GraphView(module)
    before = results_of(module)
    names = [node.name for node in module.graph.nodes]
    transposes = view.find(path="layers.1", op="aten.t", phase="forward")
    moved = view["layers.0"].forward.hoist(transposes)
    module.graph.lint()
    assert moved == list(transposes)
    assert len(moved) == 6
    gone = {node.name for node in moved}
    left = [node.name for node in module.graph.nodes if node not in moved]
    assert left == [name for name in names if name not in gone]
    assert differences(before, results_of(module)) == []
    assert view["layers.1"].forward.nodes[:6] == transposes


def test_hoisting_takes_along_what_is_needed(captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["transformer"])
    view = GraphView(module)
    weight = view.find(path="layers.1.mlp.0", op="aten.t", phase="forward")[0]
    made = view.create(aten.neg.default, (weight,), origin=weight)
    assert view["layers.0"].forward.hoist([made]) == [weight, made]
    module.graph.lint()


def test_a_refused_hoist_gives_one_reason(captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["transformer"])
    view = GraphView(module)
    names = [node.name for node in module.graph.nodes]
    activation = view.find(path="layers.1.mlp", op="gelu", phase="forward")
    with pytest.raises(IllegalMoveError, match=r"can't move 'gelu_1' before '\w+': add_1 -> \w+ -> .* has to stay"):
        view["layers.0"].forward.hoist(activation)
    assert [node.name for node in module.graph.nodes] == names
    with pytest.raises(IllegalMoveError, match="is a placeholder"):
        view.head.forward.hoist([next(iter(module.graph.nodes))])
    with pytest.raises(EmptySelectionError, match="has no start"):
        view.head.recompute.hoist(activation)


def test_sink(captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["transformer"])
    view = GraphView(module)
    before = results_of(module)
    gradient = view.find(path="head", op="aten.sum", phase="backward")[0]
    chain = [node for node in view.head.backward.nodes if node is gradient or gradient in node.all_input_nodes]
    assert view["layers.1"].backward.sink([gradient]) == chain
    module.graph.lint()
    assert differences(before, results_of(module)) == []
    with pytest.raises(IllegalMoveError, match="has to stay in this order"):
        view["layers.0"].forward.sink(view.embed.forward.nodes)


def test_move_before_and_after(captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["transformer"])
    view = GraphView(module)
    first, second = view.head.forward.nodes[:2]
    assert first not in second.all_input_nodes
    assert view.move_before([second], first) == [second]
    assert view.move_after([second], first) == [second]
    assert view.move_after([second], first) == []
    with pytest.raises(IllegalMoveError, match=r"native_layer_norm_4 -> getitem_12 -> .* has to stay"):
        view.move_before([view.head.forward.nodes[-1]], view.norm.forward.nodes[0])


def test_writes_and_random_numbers_keep_their_order() -> None:
    class Noisy(nn.Module):
        seen: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            y = x * self.seen
            self.seen.add_(1)
            z = x + self.seen
            return torch.rand_like(y) + torch.rand_like(z)

    program = torch.export.export(Noisy(), (torch.ones(2),))
    view = GraphView(program)
    mul, add_, add, rand, rand_1 = view.root.nodes[:5]
    assert add_.target is aten.add_.Tensor
    with pytest.raises(IllegalMoveError, match="mul -> add_ \\(it writes what 'mul' reads\\)"):
        view.move_before([add_], mul)
    with pytest.raises(IllegalMoveError, match="add_ -> add has to stay"):
        view.move_before([add], add_)
    with pytest.raises(IllegalMoveError, match="draw random numbers"):
        view.move_before([rand_1], rand)


def test_bodies_of_operators_go_along() -> None:
    class Choosing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x * 2,)) + 1

    x = torch.ones(2)
    program = torch.export.export(Choosing(), (x,))
    view = GraphView(program)
    alone = view.root.extract()
    assert torch.equal(alone(x)["add"], Choosing()(x))
    assert [node.op for node in alone.graph.nodes].count("placeholder") == 1


def test_inline_wants_a_call(captured: dict[str, fx.GraphModule]) -> None:
    view = GraphView(captured["transformer"])
    with pytest.raises(ViewError, match="calls no GraphModule"):
        view.inline(view.head.nodes[0])
    with pytest.raises(ViewError, match="belongs to no module"):
        GraphView(fx.Graph()).root.extract()


def test_several_results_are_taken_apart(captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured["transformer"])
    view = GraphView(module)
    call = view["layers.0.norm1"].forward.outline()
    assert {user.target for user in call.users} == {operator.getitem}
    assert view.owner(call).kind is Kind.COMPUTE
    assert all(str(view.owner(user).path) == "layers.0.norm1" for user in call.users)


def _all_but(node: fx.Node) -> Callable[[fx.Node], bool]:
    return lambda user: user is not node


@pytest.mark.parametrize("name", ["transformer", "odd"])
def test_nodes_that_are_put_in_change_no_owner(name: str, captured: dict[str, fx.GraphModule]) -> None:
    module = copy.deepcopy(captured[name])
    view = GraphView(module)
    before = {node.name: (owner.scope, owner.phase) for node, owner in view.index.owners.items()}
    for at, node in enumerate(list(view.root.nodes)):
        if not isinstance(node.meta.get("val"), Tensor) or at % 5:
            continue
        if at % 2:
            made = view.create(aten.view_as.default, (node, node), origin=node)
            assert (view.owner(made).scope, view.owner(made).phase) == before[node.name]
        else:
            with module.graph.inserting_after(node):
                made = module.graph.call_function(aten.view_as.default, (node, node))
        made.meta["val"] = node.meta["val"]
        after = {node.name: (owner.scope, owner.phase) for node, owner in view.index.owners.items()}
        assert before.items() <= after.items()
        node.replace_all_uses_with(made, delete_user_cb=_all_but(made), propagate_meta=False)
    after = {node.name: (owner.scope, owner.phase) for node, owner in view.index.owners.items()}
    assert before.items() <= after.items()
