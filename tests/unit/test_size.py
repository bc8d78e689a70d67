"""Depth and width: no recursion over the tree, and Python's own limit is met no earlier than by the original."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tests.support.comparing import assert_same_state
from unflatten import info, unflatten

X = torch.randn(2)


class Level(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.randn(2))
        if depth:
            self.inner = Level(depth - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.b
        return self.inner(x) if hasattr(self, "inner") else x


@contextmanager
def recursion_limit(limit: int) -> Iterator[None]:
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def test_nesting_as_deep_as_the_original_can_run() -> None:
    model = Level(200)
    with recursion_limit(50_000):  # export needs it
        program = torch.export.export(model, (X,))
    nested = unflatten(program)
    assert_same_state(model, nested)
    assert torch.equal(nested(X), model(X))


def test_nesting_deeper_than_the_recursion_limit_can_be_unflattened() -> None:
    with recursion_limit(50_000):
        model = Level(500)
        program = torch.export.export(model, (X,))
    nested = unflatten(program)
    with recursion_limit(50_000):
        assert torch.equal(nested(X), model(X))


def test_many_siblings_and_many_calls() -> None:
    class Leaf(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor, i: int) -> torch.Tensor:
            return x * self.w + i

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(300))
            self.leaf = Leaf()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for at, layer in enumerate(self.layers):
                x = self.leaf(layer(x), at % 7).sin()
            return x

    model = Wide()
    nested = unflatten(torch.export.export(model, (X,)))
    assert_same_state(model, nested)
    assert torch.equal(nested(X), model(X))
    assert len(info(nested.leaf).bodies) == 7
    assert len({type(layer) for layer in nested.layers}) == 1
