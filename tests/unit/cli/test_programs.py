"""Commands on programs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export.experimental import _export_forward_backward

from tests.unit.cli.calling import call, refused
from unflatten import source
from unflatten.cli import check as checking
from unflatten.cli import comparing

TREE = """\
module           class       parameters  nodes  takes and gives
blocks.1         Block              568      5  (x=float32[4, 8]) -> float32[4, 8]
  blocks.1.norm  LayerNorm           16      1  (input=float32[4, 8]) -> float32[4, 8]
  blocks.1.mlp   Sequential         552      3  (input=float32[4, 8]) -> float32[4, 8]
"""


def test_tree(folder: Path) -> None:
    assert call("tree", str(folder / "model.pt2"), "--path", "blocks.1", "--depth", "1").out == TREE


def test_tree_of_all(folder: Path) -> None:
    lines = call("tree", str(folder / "model.pt2")).out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["(root)", "blocks", "blocks.0"]
    assert len(lines) == 16


def test_a_program_from_standard_input(folder: Path) -> None:
    answer = call("tree", "-", "-p", "blocks.1", "-d", "1", stdin=(folder / "model.pt2").read_bytes())
    assert (answer.code, answer.out) == (0, TREE)


def test_what_a_file_is_does_not_depend_on_its_name(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.nir").write_bytes((folder / "model.pt2").read_bytes())
    (tmp_path / "y.pt2").write_bytes((folder / "network.nir").read_bytes())
    assert call("tree", str(tmp_path / "x.nir"), "-p", "blocks.1", "-d", "1").out == TREE
    assert "LIF" in call("tree", str(tmp_path / "y.pt2")).out


def test_a_program_with_a_backward(tmp_path: Path) -> None:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).sum()

    program = torch.export.export(Loss(), (torch.ones(2, 3),))
    joint = _export_forward_backward(program)
    torch.export.save(joint, tmp_path / "joint.pt2")
    lines = call("tree", str(tmp_path / "joint.pt2")).out.splitlines()
    assert lines[2].split()[:3] == ["linear", "Module", "4"]
    assert "forward" in lines[2]
    assert "backward" in lines[2]


def test_show(folder: Path) -> None:
    answer = call("show", str(folder / "model.pt2"), "blocks.0")
    assert answer.out == "def forward(self, x):\n    return x + self.mlp(self.norm(x))\n"
    assert call("show", str(folder / "model.pt2"), "--all").out.count("def forward") == 2
    assert "genuine torch.nn.modules.linear.Linear" in call("show", str(folder / "model.pt2"), "head").out
    assert "genuine torch.nn.modules.container.ModuleList" in call("show", str(folder / "model.pt2"), "blocks").out


def test_an_unknown_module(folder: Path) -> None:
    for command in ("show", "tree", "stats"):
        option = ["--path"] if command != "show" else []
        refused(command, str(folder / "model.pt2"), *option, "block.0", found="did you mean 'blocks")


def test_check(folder: Path) -> None:
    answer = call("check", str(folder / "model.pt2"), "--times", "1")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "inputs: the program's example inputs"
    assert [line.split() for line in lines[2:6]] == [
        ["outputs", "1", "1", "0"],
        ["gradients", "15", "15", "0"],
        ["state", "14", "14", "0"],
        ["arguments", "afterwards", "1", "1", "0"],
    ]
    assert lines[6].startswith("time: flat ")
    assert lines[7] == "equal"


def test_check_without_examples(tmp_path: Path) -> None:
    class Counting(nn.Module):
        count: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.drop = nn.Dropout()

        def forward(self, x: torch.Tensor, rows: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return self.drop(x[rows]) * scale + self.count

    size = torch.export.Dim("size", min=2)
    args, kwargs = (torch.randn(5, 2), torch.tensor([1, 0])), {"scale": torch.ones(2)}
    shapes = {"x": {0: size}, "rows": None, "scale": None}
    program = torch.export.export(Counting(), args, kwargs, dynamic_shapes=shapes)
    program.example_inputs = None
    torch.export.save(program, tmp_path / "program.pt2")
    answer = call("check", str(tmp_path / "program.pt2"), "--times", "1")
    assert answer.code == 0, answer
    assert answer.out.startswith("inputs: random numbers of the program's shapes\n")


def test_check_tells_what_differs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = comparing.outcome
    seen: list[nn.Module] = []

    def wrong(module: nn.Module, *others: object) -> comparing.Outcome:
        seen.append(module)
        if len(seen) == 2:
            with torch.no_grad():
                module.get_parameter("head.bias").add_(1.0)
        return real(module, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(comparing, "outcome", wrong)
    answer = call("check", str(folder / "model.pt2"), "--times", "1")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[2].split()[:3] == ["outputs", "1", "0"]
    assert lines[4].split() == ["state", "14", "13", "1", "differs:", "head.bias"]
    assert lines[-1] == "different"
    assert checking.DIFFERENT == 1


def test_stats(folder: Path) -> None:
    lines = call("stats", str(folder / "model.pt2"), "--depth", "2", env={"PYTHONIOENCODING": "utf-8"}).out.splitlines()
    assert lines[0].split() == ["module", "class", "flops", "parameter", "bytes", "activation", "bytes"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["(root)", "Model", "8,320"],
        ["blocks", "8,192", "4,544"],
        ["blocks.[0-1]", "Block", "4,096"],
        ["head", "Linear", "128"],
    ]
    assert lines[1].endswith("█" * 20)


def test_diff(folder: Path) -> None:
    model, other = str(folder / "model.pt2"), str(folder / "other.pt2")
    same = call("diff", model, model)
    assert (same.code, same.out) == (0, "no difference\n")
    different = call("diff", model, other)
    assert different.code == 1
    assert different.out == "blocks.1.mlp.1 forward: -1 aten.gelu.default, +1 aten.relu.default\n"
    refused("diff", "-", "-", found="only one of two files")


def test_source(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "package"
    assert call("source", str(folder / "model.pt2"), str(out)).code == 0
    program = torch.export.load(folder / "model.pt2")
    x = torch.randn(4, 8)
    assert torch.equal(source.load(out)(x), program.module()(x))


@pytest.mark.parametrize(("end", "begins"), [("html", "<!doctype html>"), ("dot", "digraph"), ("json", "{")])
def test_draw(folder: Path, tmp_path: Path, end: str, begins: str) -> None:
    out = tmp_path / f"picture.{end}"
    answer = call("draw", str(folder / "model.pt2"), "blocks.0", "-o", str(out))
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"wrote {out}\n"
    text = out.read_text()
    assert text.lower().startswith(begins)
    if end == "json":
        json.loads(text)


def test_draw_in_no_known_way(folder: Path) -> None:
    refused("draw", str(folder / "model.pt2"), "-o", "x.bmp", found="can't tell from 'x.bmp' how to draw")


def test_programs_where_networks_are_wanted(folder: Path) -> None:
    model = str(folder / "model.pt2")
    refused("run", model, str(folder / "input.npy"), "-o", "x.npy", found="this command is for NIR graphs")
    refused("convert", model, "x.pt2", found="is an exported program already")
    refused("convert", model, "x.onnx", found="end it with .pt2 or .nir")
    refused("convert", model, "x.nir", found="has no meaning in NIR")


def test_programs_that_write_their_arguments(tmp_path: Path) -> None:
    class Writing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return x + 1

    file = io.BytesIO()
    torch.export.save(torch.export.export(Writing(), (torch.ones(3),)), file)
    answer = call("check", "-", "--times", "1", stdin=file.getvalue())
    assert answer.code == 0, answer
    assert "no output has a gradient" in answer.out
