"""Modules of plain functions, so that a test says in a line what a module and what is around it compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Plain(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class Inside(nn.Module):
    """A module with one child, `inner`; the outer function is given that and the input."""

    def __init__(self, inner: Callable[..., Any], outer: Callable[..., Any]) -> None:
        super().__init__()
        self.inner, self.outer = Plain(inner), outer

    def forward(self, x: torch.Tensor) -> Any:
        return self.outer(self.inner, x)
