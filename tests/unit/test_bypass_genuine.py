"""Genuine modules of torch.nn inside of what is left out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.comparing import assert_same_run, assert_same_state, capture
from unflatten import bypass, restore, unflatten

X = torch.linspace(-1, 1, 8).view(2, 4)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        self.weight = nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) * self.weight


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.m = Scaled()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.m(x) + 1


@pytest.mark.parametrize(
    "order",
    [["m.a", "m.a.1"], ["m.a", "m.a.1.0"], ["m.a.1", "m.a.1.1"], ["m", "m.a", "m.a.1", "m.a.1.1"], ["m.a.1.1", "m.a"]],
)
@pytest.mark.parametrize("first", [0, 1])
def test_what_is_inside_of_something_left_out_can_be_left_out_too(order: list[str], first: int) -> None:
    model = Outer()
    program = capture(model, (X,))
    nested, other = unflatten(program), unflatten(program)
    for path in order:
        bypass(nested, path)
        bypass(other, order[-1 - order.index(path)])
    assert_same_state(nested, other)
    assert_same_run(nested, other, (X,))
    for path in order if first else reversed(order):
        restore(nested, path)
    assert_same_state(model, nested)
    assert_same_run(model, nested, (X,))
