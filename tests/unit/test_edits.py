"""Each edit of `unflatten.testing.graph_edits`: what it does to a graph, and where it does nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from tests.support.comparing import capture
from unflatten import unflatten
from unflatten.testing.edits import EDITS, Edit, Edits

X = torch.linspace(-1, 1, 4)


class Net(nn.Module):
    """A value that is used twice, one that is computed twice, and one that nothing uses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        x.cos()
        return torch.cat([y + 1, x.sin() * y])


class Writing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y.add_(1)
        return y * y.sum()


def names(program: ExportedProgram) -> list[str]:
    return [node.name for node in program.graph.nodes if node.op == "call_function"]


def edited(model: nn.Module, *edits: tuple[str, str]) -> ExportedProgram:
    program = capture(model, (X.clone(),))
    found = Edits(tuple(Edit(*edit) for edit in edits)).edited(program)
    wanted = model(X.clone())
    assert torch.equal(found.module()(X.clone()), wanted)
    assert torch.equal(unflatten(found)(X.clone()), wanted)
    assert names(program) == names(capture(model, (X.clone(),)))  # the program itself stays as it was
    return found


def users(program: ExportedProgram, name: str) -> list[str]:
    return [user.name for node in program.graph.nodes if node.name == name for user in node.users]


BEFORE = ["sin", "cos", "add", "sin_1", "mul", "cat"]


@pytest.mark.parametrize(
    ("edit", "node", "after"),
    [
        ("hoist", "mul", ["sin", "sin_1", "mul", "cos", "add", "cat"]),
        ("hoist", "sin_1", ["sin_1", "sin", "cos", "add", "mul", "cat"]),
        ("sink", "sin", ["cos", "sin_1", "sin", "add", "mul", "cat"]),
        ("merge", "sin_1", ["sin", "cos", "add", "mul", "cat"]),
        ("merge", "mul", BEFORE),
        ("remove_dead_code", "cos", ["sin", "add", "sin_1", "mul", "cat"]),
        ("remove_dead_code", "sin", BEFORE),
        ("add_dead_code", "add", ["sin", "cos", "add", "add_1", "sin_1", "mul", "cat"]),
        ("insert", "sin", ["sin", "clone_default", "cos", "add", "sin_1", "mul", "cat"]),
        ("insert", "cat", [*BEFORE, "clone_default"]),
        ("duplicate", "sin", ["sin", "cos", "add", "sin_1", "sin_2", "mul", "cat"]),
        ("duplicate", "add", BEFORE),
        ("strip", "add", BEFORE),
        ("strip", "gone", BEFORE),
    ],
)
def test_edits(edit: str, node: str, after: list[str]) -> None:
    assert names(capture(Net(), (X,))) == BEFORE
    assert names(edited(Net(), (edit, node))) == after


def test_who_uses_what_after_an_edit() -> None:
    assert users(edited(Net(), ("insert", "sin")), "clone_default") == ["add", "mul"]
    assert users(edited(Net(), ("duplicate", "sin")), "sin_2") == ["mul"]
    assert users(edited(Net(), ("merge", "sin_1")), "sin") == ["add", "mul"]
    assert users(edited(Net(), ("insert", "cat")), "cat") == ["output", "clone_default"]


def test_edits_one_after_the_other() -> None:
    found = edited(Net(), ("duplicate", "sin"), ("merge", "sin"), ("remove_dead_code", "cos"))
    assert names(found) == ["sin", "add", "mul", "cat"]


@pytest.mark.parametrize("edit", ["merge", "insert", "duplicate", "add_dead_code"])
def test_values_that_are_written_to_are_left_alone(edit: str) -> None:
    operators = names(capture(Writing(), (X.clone(),)))
    target = next(name for name in operators if name.startswith("add"))
    assert names(edited(Writing(), (edit, target))) == operators


def test_an_edit_is_of_a_graph_a_module_or_a_program() -> None:
    program = capture(Net(), (X,))
    given: list[Any] = [program.graph, program.graph_module, program]
    for each in given:
        Edit("add_dead_code", "sin").apply(each)
    assert names(program) == ["sin", "sin_4", "sin_3", "sin_2", "cos", "add", "sin_1", "mul", "cat"]
    assert sorted(EDITS) == [
        "add_dead_code",
        "duplicate",
        "hoist",
        "insert",
        "merge",
        "remove_dead_code",
        "sink",
        "strip",
    ]
