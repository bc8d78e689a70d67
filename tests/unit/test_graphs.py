"""Graphs that a pass changed by hand, and the fx graphs of modules."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from tests.support.comparing import capture
from tests.support.wrapping import Inside, Plain
from unflatten import export, info, unflatten
from unflatten.code.graphs import Making, Rebuilding
from unflatten.errors import InputError, MissingStateError, ProgramError

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def named(graph: fx.Graph, name: str) -> fx.Node:
    return next(node for node in graph.nodes if node.name == name)


def changed(change: Callable[[fx.GraphModule], None], function: Callable[[Any], Any]) -> nn.Module:
    program = capture(Plain(function), (X,))
    change(program.graph_module)
    return unflatten(program)


def chain(x: torch.Tensor) -> torch.Tensor:
    return (x.relu() + 1).sin()


def without_output(module: fx.GraphModule) -> None:
    module.graph.erase_node(module.graph.output_node())


def with_module(module: fx.GraphModule) -> None:
    module.add_module("m", nn.ReLU())
    node = named(module.graph, "relu")
    with module.graph.inserting_before(node):
        node.replace_all_uses_with(module.graph.create_node("call_module", "m", node.args))


def reading(target: str) -> Callable[[fx.GraphModule], None]:
    def change(module: fx.GraphModule) -> None:
        node = named(module.graph, "add")
        with module.graph.inserting_before(node):
            node.args = (node.args[0], module.graph.create_node("get_attr", target))

    return change


def test_graphs_that_no_program_has() -> None:
    with pytest.raises(ProgramError, match="the graph has no output node"):
        changed(without_output, chain)
    with pytest.raises(ProgramError, match="node 'm' is a call_module, which exported programs don't have"):
        changed(with_module, chain)
    with pytest.raises(MissingStateError, match=r"node 'lost_c' reads 'lost\.c', which the graph module lacks"):
        changed(reading("lost.c"), chain)


def test_tensors_that_a_graph_holds_itself() -> None:
    def hold(module: fx.GraphModule) -> None:
        module.register_buffer("c", torch.full((4,), 3.0))
        reading("c")(module)

    assert torch.equal(changed(hold, chain)(X), (X.relu() + 3).sin())


def test_bodies_that_use_one_name_for_different_tensors() -> None:
    def blocks(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x + 1
        z = y.sin()
        with torch.no_grad():
            return y + (z + 1)

    def hold(module: fx.GraphModule) -> None:
        bodies = list(module.children())
        assert len(bodies) == 2
        for value, body in enumerate(bodies):
            assert isinstance(body, fx.GraphModule)
            body.register_buffer("c", torch.full((4,), 3.0 + value))
            first = next(node for node in body.graph.nodes if node.op == "call_function")
            with body.graph.inserting_before(first):
                other = next(each for each in first.args if each == 1)
                held = body.graph.create_node("get_attr", "c")
                first.args = tuple(held if each is other else each for each in first.args)
            body.recompile()

    found = changed(hold, blocks)(X)
    wanted = X + 3
    assert torch.equal(found, wanted + (wanted.sin() + 4))


def held_in_branch(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: torch.cond(a[0, 0] > 0, torch.sin, torch.cos, (a,)), lambda a: a - 1, (x,))


def test_branches_in_branches_pickle() -> None:
    loaded = pickle.loads(pickle.dumps(unflatten(export(Plain(held_in_branch), (X,)))))
    for x in (X - 5, X + 5, torch.cat([X[:1] * 0 - 1, X[:1] * 0 + 3])):
        assert torch.equal(loaded(x), held_in_branch(x))


@dataclass
class Pair:
    a: Any
    b: Any


def test_objects_in_the_graphs_of_modules() -> None:
    model = Inside(lambda pair: Pair(pair.a + 1, [pair.b * 2]), lambda inner, x: inner(Pair(x, x - 1)).b[0])
    nested = unflatten(export(model, (X,)))
    outer, inner = info(nested).graph, info(nested.inner).graph
    made = named(outer, "make_pair")
    assert (made.target, made.args) == (Making(Pair), ())
    assert {name: str(node) for name, node in made.kwargs.items()} == {"a": "x", "b": "sub"}
    assert [node.target for node in outer.nodes][-4:-1] == [getattr, getattr, operator.getitem]
    assert named(outer, "getattr_2").args == (named(outer, "inner"), "b")
    assert named(outer, "getitem").meta["val"].shape == (2, 4)
    assert [node.args[1] for node in inner.nodes if node.target is getattr] == ["a", "b"]
    whole = fx.GraphModule(nested, outer)
    assert torch.equal(whole(X), (X - 1) * 2)


class Bag:
    """A container that only pytree takes apart and puts together."""

    def __init__(self, *items: Any) -> None:
        self.items = items


pytree.register_pytree_node(
    Bag,
    lambda bag: (list(bag.items), None),
    lambda items, _: Bag(*items),
    serialized_type_name="tests.unit.test_graphs.Bag",
)


def test_containers_in_the_graphs_of_modules() -> None:
    model = Inside(lambda bag: Bag(bag.items[1], bag.items[0] + 1), lambda inner, x: inner(Bag(x, x * 2)))
    nested = unflatten(export(model, (X,)))
    graph = info(nested).graph
    made = [node for node in graph.nodes if isinstance(node.target, Rebuilding)]
    assert [[str(arg) for arg in node.args] for node in made] == [["x", "mul"], ["getitem_1", "getitem"]]
    found = fx.GraphModule(nested, graph)(X)
    assert torch.equal(found.items[0], X * 2)
    assert torch.equal(found.items[1], X + 1)
    with pytest.raises(InputError, match=r"argument `args_0\[leaf 1\]` has size 3 in dimension 0, expected 2"):
        nested.inner(Bag(X, torch.ones(3, 4)))


def test_modes_in_the_graphs_of_modules() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.t()
        with torch.no_grad():
            z = x * 2
        return y.float() + z.sum()

    nested = unflatten(export(Plain(forward), (X,)))
    graph = info(nested).graph
    entered = [node for node in graph.nodes if node.target is torch.amp.autocast_mode._enter_autocast]
    left = [node for node in graph.nodes if node.target is torch.amp.autocast_mode._exit_autocast]
    assert [node.args for node in entered] == [("cpu", torch.bfloat16, True, False)] * len(left)
    assert [node.args[0] for node in left] == entered
    assert len(left) > 0
    before, grad = named(graph, "mul").prev, named(graph, "mul").next
    assert (before.args, grad.args) == ((False,), (True,))
    assert torch.equal(fx.GraphModule(nested, graph)(X), forward(X))
