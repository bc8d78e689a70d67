"""Draws the picture in docs/how-to/draw-graphs.md.

python tools/draw_example.py docs/assets/draw-graphs.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from unflatten import export, render, unflatten


class Attention(nn.Module):
    """One head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """From tokens to tokens."""
        weights = torch.softmax(self.q(x) @ self.k(x).mT, -1)
        out: Tensor = self.out(weights @ self.v(x))
        return out


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(width), Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """From tokens to tokens."""
        x = x + self.attn(self.norm(x))
        out: Tensor = x + self.mlp(self.norm(x))
        return out


def main(file: str) -> None:
    """Writes the picture."""
    nested = unflatten(export(Block(8), (torch.ones(2, 5, 8),)))
    Path(file).write_text(render.svg(nested), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
