"""A model whose parameters two ranks hold half of each, gathered forward and scattered backward."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

c10d = torch.ops._c10d_functional


def group_name() -> str:
    """The name of the default process group, of two ranks."""
    world = dist.group.WORLD
    assert world is not None
    return world.group_name


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return c10d.wait_tensor(c10d.all_gather_into_tensor(x, 2, group_name()))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return c10d.wait_tensor(c10d.reduce_scatter_tensor(grad.contiguous(), "sum", 2, group_name()))


class Sharded(nn.Module):
    """A linear layer of which each of two ranks holds half."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, Gather.apply(self.weight), Gather.apply(self.bias))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Sharded(), Sharded()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(torch.sigmoid(self.a(x)))


class ShardedStack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x
