"""Programs that return containers of a package: it is imported only for files that are trusted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unflatten import files
from unflatten.errors import ProgramFileError

PACKAGE = """
from dataclasses import dataclass
import torch

@dataclass
class Pair:
    first: torch.Tensor

torch.export.register_dataclass(Pair, serialized_type_name="pairs_of_a_package.Pair")
"""
WRITE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from pairs_of_a_package import Pair

class Model(torch.nn.Module):
    def forward(self, x):
        return Pair(x + 1)

torch.export.save(torch.export.export(Model(), (torch.ones(2),)), sys.argv[1] + "/pair.pt2")
"""


def test_a_container_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pairs_of_a_package.py").write_text(PACKAGE)
    subprocess.run([sys.executable, "-c", WRITE, str(tmp_path)], check=True)
    file = tmp_path / "pair.pt2"
    for trust in (False, True):
        with pytest.raises(ProgramFileError, match=r"a pairs_of_a_package\.Pair, .* after `import pairs_of_a_package`"):
            files.load(file, trust=trust)  # which is not found
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ProgramFileError, match="trust=True"):
        files.load(file)
    assert "pairs_of_a_package" not in sys.modules
    program = files.load(file, trust=True)
    assert type(program.module()(program.example_inputs[0][0])).__name__ == "Pair"
