"""What holds of every program when modules and nodes are left out: the order does not matter, and undoing undoes."""

from __future__ import annotations

import contextlib
import copy

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import fx, nn

from tests.properties.programs import Plan, calling_plans
from tests.properties.test_unflatten import ARGS, model_of
from tests.support.comparing import assert_same_run, assert_same_state, capture, differences
from unflatten import UnflattenedModule, bypass, bypass_node, info, restore, swap, swap_node, unflatten
from unflatten.errors import BypassError

Names = list[str]


def paths(module: nn.Module) -> Names:
    """The modules that may be left out, those at several names once."""
    return [name for name, inner in module.named_modules() if name and isinstance(inner, UnflattenedModule)]


def left_out(module: nn.Module, names: Names) -> Names:
    """Leaves modules out, each told to hand on its first input; the ones that could be."""
    done = []
    for name in names:
        with contextlib.suppress(BypassError):
            bypass(module, name, using=0)
            done.append(name)
    return done


@given(calling_plans, st.data())
def test_bypasses_commute_and_are_undone_in_any_order(plan: Plan, data: st.DataObject) -> None:
    program = capture(model_of(plan), ARGS)
    nested, other, fresh = unflatten(program), unflatten(program), unflatten(program)
    names = paths(nested)
    done = left_out(nested, names)
    assert set(left_out(other, data.draw(st.permutations(names)))) == set(done)
    assert_same_state(nested, other)
    assert_same_run(nested, copy.deepcopy(other), ARGS)
    for name in data.draw(st.permutations(done)):
        restore(other, name)
    assert_same_state(fresh, other)
    assert_same_run(fresh, other, ARGS)


@given(calling_plans, st.data())
def test_what_is_left_is_what_counts(plan: Plan, data: st.DataObject) -> None:
    program = capture(model_of(plan), ARGS)
    nested, other = unflatten(program), unflatten(program)
    done = left_out(nested, paths(nested))
    kept = data.draw(st.lists(st.sampled_from(done), unique=True)) if done else []
    for name in data.draw(st.permutations([name for name in done if name not in kept])):
        restore(nested, name)
    for name in kept:
        bypass(other, name, using=0)
    assert_same_state(other, nested)
    assert_same_run(other, copy.deepcopy(nested), ARGS)


@given(calling_plans, st.data())
def test_swapping_a_module_for_a_copy_and_back_changes_nothing(plan: Plan, data: st.DataObject) -> None:
    program = capture(model_of(plan), ARGS)
    nested, fresh = unflatten(program), unflatten(program)
    names = paths(nested)
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    twin = copy.deepcopy(nested.get_submodule(name))
    before = swap(nested, name, twin)
    assert before not in set(nested.modules())
    assert swap(nested, name, before) is twin
    assert_same_state(fresh, nested)
    assert_same_run(fresh, nested, ARGS)


class Copies(nn.Module):
    """Returns a copy of one of its arguments."""

    accepts_guessed_arguments = True

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return args[self.position].clone()


@given(calling_plans)
def test_a_module_that_is_left_out_is_as_if_it_had_copied_its_input(plan: Plan) -> None:
    program = capture(model_of(plan), ARGS)
    nested, other = unflatten(program), unflatten(program)
    for name in reversed(paths(nested)):  # what is inside of a module comes before it
        if not left_out(nested, [name]):
            continue
        inner = info(nested.get_submodule(name))
        body = inner.bodies[0]
        if len(inner.bodies) > 1 or len(inner.calls[0].results) != 1:
            restore(nested, name)
            continue
        chosen = body.steps[0].args[0] if body.steps else body.result
        positions = [at for at, found in enumerate(body.parameters) if found.leaves[0][0] == chosen.index]
        swap(other, name, Copies(positions[0]))
    assert_same_run(other, nested, ARGS)


def node_names(graph: fx.Graph) -> Names:
    return [node.name for node in graph.nodes if node.op == "call_function"]


@given(calling_plans, st.data())
def test_nodes_commute_and_are_undone_in_any_order(plan: Plan, data: st.DataObject) -> None:
    module = capture(model_of(plan), ARGS).graph_module
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


@given(calling_plans, st.data())
def test_a_node_that_is_left_out_is_as_if_it_had_copied_its_input(plan: Plan, data: st.DataObject) -> None:
    """Only its own result changes: nobody sees a write that it did not see before."""
    module = capture(model_of(plan), ARGS).module()
    names = node_names(module.graph)
    for name in data.draw(st.lists(st.sampled_from(names), max_size=4, unique=True)) if names else ():
        with contextlib.suppress(BypassError):
            without = bypass_node(module, name, using=0)
            result = module_run(copy.deepcopy(module))
            without.undo()
            stand_in = without.pairs.get(without.node)
            if stand_in is not None:
                swapped = swap_node(module, name, torch.clone, (stand_in,))
                assert not differences(module_run(copy.deepcopy(module)), result), name
                swapped.undo()


def module_run(module: nn.Module) -> object:
    torch.manual_seed(0)
    result = module(*copy.deepcopy(ARGS))
    return result, dict(module.named_buffers())
