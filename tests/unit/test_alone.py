"""Modules called without their parent."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.comparing import (
    assert_unflattens,
    capture,
)
from unflatten import unflatten
from unflatten.errors import InputError, UnknownSignatureError

X = torch.randn(2, 3)


def test_what_the_order_of_arguments_decides_is_refused_where_it_was_not_recorded() -> None:
    class Minus(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return b - a

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.minus = Minus()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.minus(x, x + 1)

    nested = assert_unflattens(Net(), (X,))
    with pytest.raises(UnknownSignatureError, match=r"unflatten\.export"):
        nested.minus(X, X + 1)
    nested.minus = Minus()
    with pytest.raises(UnknownSignatureError, match=r"unflatten\.export"):
        nested(X)


def test_arguments_that_only_one_input_can_be_are_matched_whatever_their_order() -> None:
    class Scale(nn.Module):
        def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
            return x * by.sum()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = Scale()

        def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
            return self.scale(x, by)

    by = torch.randn(5)
    nested = assert_unflattens(Net(), (X, by))
    assert torch.equal(nested.scale(by, X), X * by.sum())
    assert torch.equal(nested.scale(x=X, by=by), X * by.sum())


def test_a_module_called_alone_refuses_sizes_that_it_was_not_captured_with() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.shape[0] > 1 else x - 100

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branches = Branches()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.branches(x)

    nested = unflatten(capture(Net(), (X,)))
    assert torch.equal(nested.branches(X), X * 2)
    with pytest.raises(InputError, match="size 1 in dimension 0, expected 2"):
        nested.branches(X[:1])
