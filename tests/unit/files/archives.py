"""Archives of programs, changed."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Model(nn.Module):
    """A model with a size that is free, a buffer, and a keyword."""

    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.linear(x * self.scale) * mask


def saved(model: nn.Module | None = None) -> bytes:
    """A file of a program with a free size."""
    size = torch.export.Dim("size")
    shapes = {"x": {0: size}, "mask": {0: size}}
    program = torch.export.export(
        model or Model(), (torch.ones(3, 4),), {"mask": torch.ones(3, 1)}, dynamic_shapes=shapes
    )
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def changed(data: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """An archive with other records; names are given without the folder that holds them all."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        folder = archive.namelist()[0].partition("/")[0]
        records = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    change(records)
    file = torch._C.PyTorchFileWriter(made := io.BytesIO())
    for name, content in records.items():
        if not name.startswith(".data/") and name != "byteorder":
            file.write_record(name, content, len(content))
    file.write_end_of_file()
    assert folder
    return made.getvalue()


def with_text(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """An archive with another program text."""

    def edit(records: dict[str, bytes]) -> None:
        text = json.loads(records["models/model.json"])
        change(text)
        records["models/model.json"] = json.dumps(text).encode()

    return changed(data, edit)


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def bomb(path: Path) -> bytes:
    """What `torch.save` writes of a bomb."""
    file = io.BytesIO()
    torch.save(((Bomb(path),), {}), file)
    return file.getvalue()


def bare_bomb(path: Path) -> bytes:
    """A bomb as a plain pickle."""
    return pickle.dumps(Bomb(path))
