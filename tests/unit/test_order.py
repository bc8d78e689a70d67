"""The order of operators decides nothing: neither which body has which number, nor what is named first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import unflatten
from unflatten.testing import assert_order_invariant


class Scale(nn.Module):
    """Has a body for each number that it is called with."""

    def forward(self, x: Tensor, by: float) -> Tensor:
        return x * by


class Lends(nn.Module):
    """Calls a module of another one's with a number of its own."""

    def __init__(self, lent: nn.Module, by: float) -> None:
        super().__init__()
        self.lent, self.by = lent, by

    def forward(self, x: Tensor) -> Tensor:
        return self.lent(x, self.by).relu()


class Shares(nn.Module):
    """One module under three names, called once under each, and nothing says which call came first."""

    def __init__(self) -> None:
        super().__init__()
        self.own = Scale()
        self.first, self.second = Lends(self.own, 2.0), Lends(self.own, 3.0)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.second(y), self.own(x, 5.0), self.first(x)


@pytest.mark.parametrize("export", [torch.export.export, unflatten.export], ids=["plain", "recorded"])
def test_bodies_of_a_module_called_under_several_names(export: Callable[..., ExportedProgram]) -> None:
    assert_order_invariant(export(Shares(), (torch.randn(3), torch.randn(4))))
