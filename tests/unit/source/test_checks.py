"""What the first lines of written models refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import unflatten
from tests.support.wrapping import Inside, Plain
from unflatten import source
from unflatten.errors import SourceError

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def part(tmp_path: Path, model: nn.Module, **options: Any) -> tuple[str, nn.Module]:
    """The child of a model, written by itself."""
    nested = unflatten.unflatten(unflatten.export(model, (X,), **options))
    folder = source.write(nested.get_submodule("inner"), tmp_path / "part")
    return (folder / "model.py").read_text(), source.load(folder)


def test_arguments_that_were_one_tensor(tmp_path: Path) -> None:
    text, loaded = part(tmp_path, Inside(lambda x, y: x * y, lambda inner, x: inner(x, x)))
    assert "args_1 is args_0 or torch.equal(args_1, args_0),\n" in text
    assert torch.equal(loaded(X, X), X * X)
    assert torch.equal(loaded(X, X.clone()), X * X)
    with pytest.raises(ValueError, match="captured for args_0 and args_1 being one tensor"):
        loaded(X, X + 1)


def test_arguments_that_are_sizes(tmp_path: Path) -> None:
    model = Inside(lambda x, rows: x.sum(0) * rows, lambda inner, x: inner(x, x.shape[0]))
    text, loaded = part(tmp_path, model, dynamic_shapes=({0: Dim("rows", min=2, max=8)},))
    assert "    s0 = args_0.shape[0]\n" in text
    assert "require(args_1 == s0, " in text
    assert torch.equal(loaded(torch.ones(3, 4), 3), torch.full((4,), 9.0))
    with pytest.raises(ValueError, match=r"captured for args_1 == s0"):
        loaded(torch.ones(3, 4), 4)


def test_constants_that_equal_nothing_are_not_compared(tmp_path: Path) -> None:
    values = {"a": float("inf"), "b": float("nan"), "c": 2.5, "d": "q"}

    class Settings(nn.Module):
        def forward(self, x: torch.Tensor, a: float, b: float, c: float, d: str) -> torch.Tensor:
            return x + c

    text = source.text_of(unflatten.export(Settings(), (X,), values))
    required = [line.strip() for line in text.splitlines() if line.startswith("        require(")]
    assert required == ['require(c == 2.5, "c == 2.5")', 'require(d == "q", "d == \'q\'")']


def branching(x: torch.Tensor) -> Any:
    table = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return torch.cond(x.sum() > 0, lambda a: a * table, lambda a: a - 1, (x,))


def nested_branches(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: torch.cond(a[0, 0] > 0, torch.sin, torch.cos, (a,)), lambda a: a - 1, (x,))


def test_branches_in_branches_are_written(tmp_path: Path) -> None:
    folder = source.write(unflatten.export(Plain(nested_branches), (X,)), tmp_path / "net")
    loaded = source.load(folder)
    for x in (X - 5, X + 5, torch.cat([X[:1] * 0 - 1, X[:1] * 0 + 3])):
        assert torch.equal(loaded(x), nested_branches(x))


def test_a_branch_that_holds_a_tensor_of_its_own_is_refused() -> None:
    def forward(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a * torch.tensor([1.0, 2.0, 3.0, 4.0]), lambda a: a - 1, (x,))

    with pytest.raises(SourceError, match=r"a graph inside of the program holds _tensor_constant0, a Tensor.*a buffer"):
        source.text_of(unflatten.export(Plain(forward), (X,)))
    assert "torch.ops.higher_order.cond(" in source.text_of(unflatten.export(Plain(branching), (X,)))
