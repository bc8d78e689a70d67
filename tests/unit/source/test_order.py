"""The order of written steps depends on nothing that is left out: loaded and exported again, it is the same text."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import unflatten
from tests.unit.source.checking import write
from unflatten import source

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Cast(nn.Module):
    """Its cast makes capturing add a check."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * x.to(torch.float64)).to(torch.float32)


class Unasked(nn.Module):
    """Computes a last state that nobody asks for, before what it shares with the result."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        decay = (-self.gain.exp() * x).cumsum(-1)
        gate = torch.sigmoid(x) * decay.exp()
        state = (gate - decay)[:, -1] + decay.sin()[:, 0]
        return x.cos() * gate + decay, state


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Unasked()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, _ = self.inner(x)
        return x


class Branches(nn.Module):
    """Calls with checks inside, whose place among the checks around them is the program's alone."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Cast(), Cast()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.a(x)
        second = self.a(x)
        third = first.to(torch.float32)
        fourth = x.to(torch.float64)
        third = third.to(torch.float32)
        return fourth + torch.sin(self.b(second)) + third + first


class Idle(nn.Module):
    """Calls whose results come to nothing, directly and through what nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = Cast(), nn.Linear(4, 4), Unasked()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        doubled = x + x
        late = self.a(doubled)
        later = late.sin() + self.b(x.clone())
        later[:, 0].cos()
        self.c(doubled)
        return doubled.to(torch.float32).exp()


def _recorded(model: nn.Module) -> torch.export.ExportedProgram:
    return unflatten.export(copy.deepcopy(model), (X,))


def _plain(model: nn.Module) -> torch.export.ExportedProgram:
    return torch.export.export(copy.deepcopy(model), (X,))


@pytest.mark.parametrize("export", [_recorded, _plain])
@pytest.mark.parametrize("kind", [Outer, Branches, Idle])
def test_what_is_left_out_decides_no_order(
    tmp_path: Path,
    kind: Callable[[], nn.Module],
    export: Callable[[nn.Module], torch.export.ExportedProgram],
) -> None:
    folder = source.write(export(kind()), tmp_path / "net")
    loaded = source.load(folder)
    assert source.text_of(_recorded(loaded)) == (folder / "model.py").read_text()


class Widened(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + x).to(torch.float64)


class Twice(nn.Module):
    """Calls that differ in nothing but the check that capturing adds."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = Widened()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wide(self.wide(x))


def test_calls_that_differ_in_what_is_left_out_are_one_forward(tmp_path: Path) -> None:
    text = write(tmp_path, Twice(), (X,)).text
    assert "        return self.wide(self.wide(x))\n" in text
    assert text.count("def forward") == 2
