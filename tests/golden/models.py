"""The models whose source is kept, each a small one of its kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import unflatten
from unflatten import source

FOLDER = Path(__file__).parent


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(out.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.blocks = nn.ModuleList(Block(16, 4) for _ in range(4))
        self.head = nn.Linear(16, 32, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        for block in self.blocks:
            x = block(x, mask=mask)
        return self.head(x)


class Stage(nn.Module):
    def __init__(self, given: int, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(given, width, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.skip = nn.Conv2d(given, width, 1, stride=2) if given != width else nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)) + self.skip(x))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(Stage(3, 8), Stage(8, 16), Stage(16, 16))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.pool(self.stages(x)).flatten(1)
        return {"logits": self.head(features), "features": features}


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float | None) -> torch.Tensor:
        x = self.fc(x)
        return torch.tanh(x) if scale is None else x * scale


class TwoBodies(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scaled = Scaled()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x, 2.0) + self.scaled(x, None)


def spiking() -> Any:
    """A recurrent layer of a spiking network."""
    import nir

    from nir_bridge import from_nir

    ones = np.ones(3, np.float32)
    nodes = {
        "input": nir.Input({"input": np.array([4])}),
        "output": nir.Output({"output": np.array([3])}),
        "fc": nir.Affine(np.full((3, 4), 0.5, np.float32), ones),
        "lif": nir.LIF(tau=ones / 100, r=ones, v_leak=ones * 0, v_threshold=ones),
        "rec": nir.Linear(np.eye(3, dtype=np.float32)),
    }
    edges = [("input", "fc"), ("fc", "lif"), ("lif", "rec"), ("rec", "lif"), ("lif", "output")]
    return from_nir(nir.NIRGraph(nodes, edges))


def _program(model: nn.Module, *args: Any) -> Any:
    return unflatten.export(model.eval(), args)


MODELS: dict[str, Callable[[], Any]] = {
    "transformer": lambda: _program(Transformer(), torch.zeros(2, 6, dtype=torch.long)),
    "conv_net": lambda: _program(ConvNet(), torch.zeros(2, 3, 32, 32)),
    "two_bodies": lambda: _program(TwoBodies(), torch.zeros(2, 4)),
    "spiking": spiking,
}


def text(name: str) -> str:
    """The source of a model as it is written now."""
    return source.text_of(MODELS[name]())


def file(name: str) -> Path:
    """Where the source of a model is kept."""
    return FOLDER / f"{name}.txt"
