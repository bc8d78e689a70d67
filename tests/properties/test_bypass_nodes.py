"""Leaving nodes out: the order does not matter, undoing undoes, and each is as if it had copied its input."""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch import Tensor, fx, nn

from unflatten import bypass_node, swap_node
from unflatten.errors import BypassError
from unflatten.rewrite.bypass_node import NodeBypass
from unflatten.testing import ModuleDag, differences, module_dags
from unflatten.testing.running import run

aten = torch.ops.aten
ONE = [aten.relu.default, aten.neg.default, aten.clone.default, aten.detach.default, aten.t.default]
TWO = [aten.add.Tensor, aten.sub.Tensor]
WRITES = [aten.neg_.default, aten.sub_.Tensor]
SIZE = 2


class Example(fx.GraphModule):
    """A small graph of operators on square matrices."""

    def __repr__(self) -> str:
        return str(self.code)


@st.composite
def graphs(draw: st.DrawFn, *, writes: bool = True) -> Example:
    """Graphs in which any value can stand for any other."""
    graph = fx.Graph()
    values = [graph.placeholder(name) for name in "xy"]
    kinds = draw(st.lists(st.sampled_from([*ONE, *TWO, aten.sort.default, *WRITES * writes]), min_size=2, max_size=8))
    for kind in kinds:
        taken = draw(st.lists(st.sampled_from(values[::-1]), min_size=2, max_size=2))
        made = graph.call_function(kind, tuple(taken[: 2 if kind in (*TWO, WRITES[1]) else 1]))
        if kind is aten.sort.default:
            made.meta["val"] = (torch.empty(SIZE, SIZE), torch.empty(SIZE, SIZE, dtype=torch.int64))
            made = graph.call_function(operator.getitem, (made, 0))
        values.append(made)
    graph.output(tuple(draw(st.lists(st.sampled_from(values[::-1]), min_size=1, max_size=3))))
    for value in values:
        value.meta["val"] = torch.empty(SIZE, SIZE)
    return Example(nn.Module(), graph)


def inputs() -> tuple[Tensor, Tensor]:
    return torch.tensor([[3.0, -1.0], [2.0, -5.0]]), torch.tensor([[-7.0, 11.0], [13.0, 0.5]])


class WithCopies(fx.Interpreter):
    """Runs a graph in which nodes copy what stands for them."""

    def __init__(self, module: fx.GraphModule, pairs: Mapping[str, str]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.pairs = pairs

    def run_node(self, n: fx.Node) -> Any:
        if n.name not in self.pairs:
            return super().run_node(n)
        return next(value for node, value in self.env.items() if node.name == self.pairs[n.name]).clone()


def node_names(graph: fx.Graph) -> list[str]:
    return [node.name for node in graph.nodes if node.op == "call_function"]


def left_out(module: fx.GraphModule, names: list[str]) -> dict[str, NodeBypass]:
    """Leaves nodes out where that may be."""
    undos = {}
    for name in names:
        with contextlib.suppress(BypassError):
            undos[name] = bypass_node(module, name, using=0)
    return undos


@settings(settings(), max_examples=10 * settings().max_examples)
@given(graphs(), st.data())
def test_left_out_together_they_are_as_if_they_had_copied_their_inputs(module: Example, data: st.DataObject) -> None:
    whole = copy.deepcopy(module)
    undos = left_out(module, data.draw(st.permutations(node_names(module.graph))))
    pairs = {made.name: taken.name for undo in undos.values() for made, taken in undo.pairs.items()}
    args, expected = inputs(), inputs()
    try:
        wanted = WithCopies(whole, pairs).run(*expected)
    except RuntimeError:  # torch refuses to write to a matrix what is read from its transpose
        reject()
    result = module(*args)
    assert not differences((wanted, expected), (result, args)), module.code


@settings(settings(), max_examples=5 * settings().max_examples)
@given(graphs(), st.data())
def test_dead_code_is_what_is_left_out(module: Example, data: st.DataObject) -> None:
    undos = left_out(module, data.draw(st.permutations(node_names(module.graph))))
    module.graph.eliminate_dead_code(lambda node: node.op != "call_function" or node.target in WRITES)
    assert not set(undos) & set(node_names(module.graph)), module.code


@settings(settings(), max_examples=5 * settings().max_examples)
@given(graphs(), st.data())
def test_they_commute_and_are_undone_in_any_order(module: Example, data: st.DataObject) -> None:
    check_order(module, data)


@settings(settings(), max_examples=max(settings().max_examples // 2, 1))
@given(module_dags(), st.data())
def test_those_of_programs_too(dag: ModuleDag, data: st.DataObject) -> None:
    check_order(dag.export().graph_module, data)


def check_order(module: fx.GraphModule, data: st.DataObject) -> None:
    code = module.code
    undos = left_out(module, data.draw(st.permutations(node_names(module.graph))))
    all_out = module.code
    some = data.draw(st.lists(st.sampled_from(sorted(undos)), unique=True)) if undos else []
    for name in some:
        undos.pop(name).undo()
    fewer = module.code
    for name in data.draw(st.permutations(some)):
        undos[name] = bypass_node(module, name, using=0)
    assert module.code == all_out
    for name in some:
        undos.pop(name).undo()
    assert module.code == fewer
    for name in data.draw(st.permutations(sorted(undos))):
        undos.pop(name).undo()
    assert module.code == code


@settings(settings(), max_examples=max(settings().max_examples // 2, 1))
@given(module_dags(keyword_names=False), st.data())
def test_one_of_a_program_is_as_if_it_had_copied_its_input(dag: ModuleDag, data: st.DataObject) -> None:
    """Only its own result changes: nobody sees a write that it did not see before."""
    module = dag.export().module()
    names = node_names(module.graph)
    for name in data.draw(st.lists(st.sampled_from(names), max_size=4, unique=True)) if names else ():
        with contextlib.suppress(BypassError):
            without = bypass_node(module, name, using=0)
            result = outcome(module, dag)
            without.undo()
            stand_in = without.pairs.get(without.node)
            if stand_in is not None:
                swapped = swap_node(module, name, torch.clone, (stand_in,))
                assert not differences(outcome(module, dag), result), name
                swapped.undo()


def outcome(module: nn.Module, dag: ModuleDag) -> object:
    twin = copy.deepcopy(module)
    return run(twin, dag.args, dag.kwargs), dict(twin.named_buffers())
