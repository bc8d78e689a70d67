"""Files for commands, made once."""

from __future__ import annotations

from pathlib import Path

import nir
import numpy as np
import pytest
import torch
from torch import nn

from unflatten import export


class Block(nn.Module):
    """A residual block."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 32), activation, nn.Linear(32, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    """Two blocks and a head."""

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(nn.GELU()), Block(last)])
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model.pt2`, `other.pt2`, `empty.pt2`, `network.nir` and `input.npy`."""
    made = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    args = (torch.randn(4, 8),)
    torch.export.save(export(Model(nn.GELU()), args), made / "model.pt2")
    torch.export.save(export(Model(nn.ReLU()), args), made / "other.pt2")
    torch.export.save(torch.export.export(nn.Identity(), args), made / "empty.pt2")
    rng, ones = np.random.default_rng(0), np.ones(8, dtype=np.float32)
    nodes = {
        "input": nir.Input(np.array([4])),
        "fc": nir.Affine(rng.standard_normal((8, 4)), rng.standard_normal(8)),
        "rec.lif": nir.LIF(tau=1e-3 * ones, r=10 * ones, v_leak=0 * ones, v_threshold=ones),
        "rec.w": nir.Affine(rng.standard_normal((8, 8)), np.zeros(8)),
        "output": nir.Output(np.array([8])),
    }
    edges = [("input", "fc"), ("fc", "rec.lif"), ("rec.lif", "rec.w"), ("rec.w", "rec.lif"), ("rec.lif", "output")]
    nir.write(made / "network.nir", nir.NIRGraph(nodes, edges))
    np.save(made / "input.npy", rng.standard_normal((20, 4)).astype(np.float32))
    return made
