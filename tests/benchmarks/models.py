"""The models that are measured: one real architecture, and one of each shape in which cost can grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WIDTH = 8


class Translator(nn.Module):
    """`nn.Transformer` between embeddings."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.body = nn.Transformer(64, 4, layers, layers, 256, batch_first=True)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Hidden states of the target."""
        out: torch.Tensor = self.body(self.embed(source), self.embed(target))
        return out


class Residual(nn.Module):
    """A block with a sublayer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` and the sublayer's output."""
        out: torch.Tensor = x + self.inner(x)
        return out


class Wide(nn.Module):
    """Many siblings that all read the input."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of all."""
        total = x
        for part in self.parts:
            total = total + part(x)
        return total


class Deep(nn.Module):
    """A module inside a module inside a module."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.inner = Deep(depth - 1) if depth else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Through the own layer and those inside."""
        out: torch.Tensor = self.inner(torch.relu(self.fc(x)))
        return out


class Unrolled(nn.Module):
    """One cell called many times, each time with another constant if `different`."""

    def __init__(self, steps: int, different: bool) -> None:
        super().__init__()
        self.fc, self.steps, self.different = Scaled(), steps, different

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The state after all steps."""
        for step in range(self.steps):
            x = self.fc(x, float(step) if self.different else 1.0)
        return x


class Scaled(nn.Module):
    """A layer and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, by: float) -> torch.Tensor:
        """The layer's output times the constant."""
        return torch.tanh(self.fc(x)) * by


def _input() -> tuple[torch.Tensor]:
    return (torch.randn(2, WIDTH),)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "transformer, 6 + 6 layers": lambda: (
        Translator(6),
        (torch.randint(100, (2, 16)), torch.randint(100, (2, 12))),
    ),
    "500 blocks in a row": lambda: (nn.Sequential(*(Residual() for _ in range(500))), _input()),
    "1,000 siblings": lambda: (Wide(1000), _input()),
    "60 levels": lambda: (Deep(60), _input()),
    "500 equal calls": lambda: (Unrolled(500, different=False), _input()),
    "200 different calls": lambda: (Unrolled(200, different=True), _input()),
}
