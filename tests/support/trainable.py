"""Models whose training graphs are looked at: plain, with modules called twice, and odd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 8


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.wo = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        weights = torch.softmax(q @ k.transpose(-1, -2) / WIDTH**0.5, -1)
        return self.wo(weights @ v)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.norm1, self.norm2 = Attention(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Residual(nn.Module):
    """Calls its ReLU, and its batch norm, twice."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn, self.relu = nn.BatchNorm2d(channels), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn(self.conv1(x)))
        return self.relu(x + self.bn(self.conv2(y)))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.Sequential(Residual(4), Residual(4))
        self.fc = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class Odd(nn.Module):
    """A module called three times, a tied weight, a custom function, a recurrent cell, slices."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.shared = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        left, right = x[:, 0], x[:, 1]
        h = self.shared(left) + self.shared(right)
        h = self.cell(right, Double.apply(h))
        return self.head(self.shared(h) * left)


def _tokens() -> Tensor:
    return torch.arange(6).reshape(2, 3)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "transformer": lambda: (Transformer(), (_tokens(),)),
    "resnet": lambda: (ResNet(), (torch.linspace(-1, 1, 2 * 3 * 6 * 6).reshape(2, 3, 6, 6),)),
    "odd": lambda: (Odd(), (_tokens(),)),
}


class Trained(nn.Module):
    """A model and a loss, which belongs to no module of the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Tensor) -> Tensor:
        return self.model(*args).square().mean()
