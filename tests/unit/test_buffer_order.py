"""Buffers stand in the order in which the model registered them, whether they are saved or not."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from tests.support.comparing import assert_unflattens


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
