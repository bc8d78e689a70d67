"""Buffers stand in the order in which the model registered them, whether they are saved or not."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from tests.support.comparing import assert_unflattens
from unflatten import unflatten


class Holder(nn.Module):
    def __init__(self, saved: tuple[bool, ...]) -> None:
        super().__init__()
        for at, persistent in enumerate(saved):
            self.register_buffer(f"b{at}", torch.full((2,), float(at)), persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for buffer in self.buffers():
            x = x + buffer
        return x


@pytest.mark.parametrize("saved", list(itertools.product([True, False], repeat=3)))
@pytest.mark.parametrize("strict", [True, False])
def test_buffers_keep_their_order(saved: tuple[bool, ...], strict: bool) -> None:
    model = nn.Sequential(Holder(saved), Holder(saved[::-1]))
    nested = assert_unflattens(model, (torch.ones(2),), strict=strict)
    assert [name for name, _ in nested.named_buffers()] == [name for name, _ in model.named_buffers()]


class Remembers(nn.Module):
    """Has no parameter, only a buffer."""

    memory: torch.Tensor

    def __init__(self, saved: bool) -> None:
        super().__init__()
        self.register_buffer("memory", torch.zeros(2), persistent=saved)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.memory.copy_(x.detach())
        return x + self.memory


@pytest.mark.parametrize("saved", list(itertools.product([True, False], repeat=3)))
def test_names_keep_their_order_where_removing_mutation_took_modules_with_parameters_first(
    saved: tuple[bool, ...],
) -> None:
    inner = nn.Sequential(nn.PReLU(), Remembers(saved[2]), Holder(saved))
    model = nn.Sequential(Remembers(saved[0]), Holder(saved), nn.Linear(2, 2), inner, Remembers(saved[1]))
    for module in model.modules():
        if isinstance(module, Holder):
            module.register_parameter("weight", nn.Parameter(torch.ones(2)))
    nested = unflatten(torch.export.export(model, (torch.ones(2),)).run_decompositions({}))
    assert [name for name, _ in nested.named_buffers()] == [name for name, _ in model.named_buffers()]
    assert [name for name, _ in nested.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert [name for name, _ in nested.named_modules()] == [name for name, _ in model.named_modules()]
