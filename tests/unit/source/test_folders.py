"""The folder that a package is written into and read from: what may be replaced, what is refused, what stays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import unflatten
from unflatten import source

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def test_nothing_is_left_behind_where_writing_fails(tmp_path: Path) -> None:
    nested = unflatten.unflatten(unflatten.export(nn.Sequential(nn.Linear(4, 4)), (X,)))
    unflatten.swap(nested, "0", Doubled())
    with pytest.raises(unflatten.UnflattenError, match="0 is a Doubled"):
        source.write(nested, tmp_path / "net")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    program = unflatten.export(nn.Sequential(nn.Linear(4, 4)), (X,))
    with pytest.raises(unflatten.UnflattenError, match=r"notes.txt.*overwrite=True"):
        source.write(program, tmp_path)
    assert source.write(program, tmp_path, overwrite=True) == tmp_path
    names = ["README.md", "__init__.py", "model.py", "model.safetensors"]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*names, "notes.txt"])
    assert len({file.stat().st_mode for file in tmp_path.iterdir()}) == 1  # who may read the code may read the state
    (tmp_path / "notes.txt").unlink()
    (tmp_path / "model.py").write_text("edited")
    with pytest.raises(unflatten.UnflattenError, match=r"edited since.*overwrite=True"):
        source.write(program, tmp_path)
    assert (tmp_path / "model.py").read_text() == "edited"
    source.write(program, tmp_path, overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(names)
    assert "class" in (tmp_path / "model.py").read_text()


def test_a_lone_model_file_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("mine")
    with pytest.raises(unflatten.UnflattenError, match=r"something else \(model.py\)"):
        source.write(unflatten.export(nn.Sequential(nn.Linear(4, 4)), (X,)), tmp_path)
    assert (tmp_path / "model.py").read_text() == "mine"


def test_a_folder_without_a_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(unflatten.UnflattenError, match="no written package"):
        source.load(tmp_path)


def test_without_safetensors_the_error_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(unflatten.UnflattenError, match="pip install"):
        source.write(unflatten.export(nn.Sequential(nn.ReLU()), (X,)), tmp_path / "net")
