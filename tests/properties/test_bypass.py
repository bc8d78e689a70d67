"""Leaving modules out: the order does not matter, undoing undoes, and it is as removing by hand."""

from __future__ import annotations

import contextlib
import copy

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.properties.common import paths
from unflatten import bypass, info, restore, swap, unflatten
from unflatten.errors import BypassError
from unflatten.testing import (
    Features,
    ModuleDag,
    assert_bypass_equivalent,
    assert_same_outputs,
    assert_same_state,
    bypass_sets,
    module_dags,
)


@given(module_dags(), st.booleans(), st.data())
def test_bypasses_commute_and_are_undone(dag: ModuleDag, record: bool, data: st.DataObject) -> None:
    nested = unflatten(dag.export(record=record))
    assert_bypass_equivalent(nested, data.draw(bypass_sets(nested)), dag.args, dag.kwargs)


@settings(settings(), max_examples=2 * settings().max_examples)
@given(module_dags(Features.only("children", "leaves"), depth=1, steps=2), st.data())
def test_all_modules_in_any_order(dag: ModuleDag, data: st.DataObject) -> None:
    nested = unflatten(dag.export())
    names = [name for name, _ in nested.named_modules() if name]
    assert_bypass_equivalent(nested, data.draw(st.permutations(names)), dag.args, dag.kwargs)


@settings(settings(), max_examples=max(settings().max_examples // 2, 1))
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
    check_copies(dag)


INNER = {"nn.ReLU()": 1, "Twice()": 1, "Later()": 2}
CLASSES = """
import torch
from torch import nn


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


class Later(nn.Module):
    def forward(self, x, y):
        return y - x

"""


@st.composite
def written_around(draw: st.DrawFn) -> ModuleDag:
    """Models that write what their modules take and give, before and after; no result is a view of an input."""
    made: list[str] = []
    lines: list[str] = []
    values = ["x", "y"]
    for call in draw(st.lists(st.booleans(), min_size=3, max_size=7)):
        taken = draw(st.lists(st.sampled_from(values[::-1]), min_size=2, max_size=2))
        if call:
            kind = draw(st.sampled_from(sorted(INNER)))
            values.append(f"v{len(made)}")
            lines.append(f"{values[-1]} = self.inner{len(made)}({', '.join(taken[: INNER[kind]])})")
            made.append(f"self.inner{len(made)} = {kind}")
        else:
            lines.append(f"{taken[0]}.mul_(0.5)")
    body = "\n        ".join(["super().__init__()", *made])
    code = "\n        ".join([*lines, f"return torch.cat([{', '.join(values)}])"])
    init, forward = f"    def __init__(self):\n        {body}\n", f"    def forward(self, x, y):\n        {code}\n"
    called = "build = Root\nargs = (torch.tensor([1.0, -2.0]), torch.tensor([-3.0, 5.0]))\n"
    return ModuleDag(
        f"{CLASSES}\nclass Root(nn.Module):\n{init}\n{forward}\n\n{called}kwargs = {{}}\ndynamic_shapes = None\n"
    )


@given(written_around())
def test_writes_around_modules_that_are_left_out(dag: ModuleDag) -> None:
    check_copies(dag)


def check_copies(dag: ModuleDag) -> None:
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
