"""Leaving modules and nodes out: the order does not matter, undoing undoes, and it is as removing by hand."""

from __future__ import annotations

import contextlib
import copy

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import fx, nn

from tests.properties.common import paths
from unflatten import bypass, bypass_node, info, restore, swap, swap_node, unflatten
from unflatten.errors import BypassError
from unflatten.testing import (
    ModuleDag,
    assert_bypass_equivalent,
    assert_same_outputs,
    assert_same_state,
    bypass_sets,
    differences,
    module_dags,
)
from unflatten.testing.running import run


@given(module_dags(), st.booleans(), st.data())
def test_bypasses_commute_and_are_undone(dag: ModuleDag, record: bool, data: st.DataObject) -> None:
    nested = unflatten(dag.export(record=record))
    assert_bypass_equivalent(nested, data.draw(bypass_sets(nested)), dag.args, dag.kwargs)


@given(module_dags(), st.data())
def test_what_is_left_is_what_counts(dag: ModuleDag, data: st.DataObject) -> None:
    program = dag.export()
    nested, other = unflatten(program), unflatten(program)
    done = data.draw(bypass_sets(nested))
    done = tuple(name for name in done if left_out(nested, name))
    kept = data.draw(st.lists(st.sampled_from(done), unique=True)) if done else []
    for name in data.draw(st.permutations([name for name in done if name not in kept])):
        restore(nested, name)
    for name in kept:
        bypass(other, name, using=0)
    assert_same_state(other, nested)
    assert_same_outputs(other, copy.deepcopy(nested), dag.args, dag.kwargs)


def left_out(module: nn.Module, name: str) -> bool:
    """Leaves a module out, if that may be."""
    with contextlib.suppress(BypassError):
        bypass(module, name, using=0)
        return True
    return False


class Copies(nn.Module):
    """Returns a copy of one of its arguments."""

    accepts_guessed_arguments = True

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return args[self.position].clone()


@given(module_dags())
def test_a_module_that_is_left_out_is_as_if_it_had_copied_its_input(dag: ModuleDag) -> None:
    program = dag.export()
    nested, other = unflatten(program), unflatten(program)
    for name in reversed(paths(nested)):  # what is inside of a module comes before it
        if not left_out(nested, name):
            continue
        inner = info(nested.get_submodule(name))
        body = inner.bodies[0]
        if len(inner.bodies) > 1 or len(inner.calls[0].results) != 1:
            restore(nested, name)
            continue
        chosen = body.steps[0].args[0] if body.steps else body.result
        positions = [at for at, found in enumerate(body.parameters) if found.leaves[0][0] == chosen.index]
        assert positions[0] == 0, name  # as `using` says
        swap(other, name, Copies(0))
    assert_same_outputs(other, nested, dag.args, dag.kwargs)


def node_names(graph: fx.Graph) -> list[str]:
    return [node.name for node in graph.nodes if node.op == "call_function"]


@given(module_dags(), st.data())
def test_nodes_commute_and_are_undone_in_any_order(dag: ModuleDag, data: st.DataObject) -> None:
    module = dag.export().graph_module
    code, undos = module.code, {}
    for name in data.draw(st.permutations(node_names(module.graph))):
        with contextlib.suppress(BypassError):
            undos[name] = bypass_node(module, name, using=0)
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


@given(module_dags(keyword_names=False), st.data())
def test_a_node_that_is_left_out_is_as_if_it_had_copied_its_input(dag: ModuleDag, data: st.DataObject) -> None:
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
