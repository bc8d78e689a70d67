"""Commands on NIR graphs."""

from __future__ import annotations

from pathlib import Path

import nir
import numpy as np
import pytest
import torch

from nir_bridge import from_nir, to_nir, write
from nir_bridge.files import read
from tests.support.nir_graphs import gain, sink, source
from tests.unit.cli.calling import call, refused

TREE = """\
module       class     parameters  buffers  nodes  takes and gives
(root)       NIRGraph         112       40      5  [4] -> [8]
  fc         Affine            40               1  [4] -> [8]
  rec        Group             72       40      2
    rec.lif  LIF                0       40      1  [8] -> [8]
    rec.w    Affine            72               1  [8] -> [8]

one step late: rec.lif -> rec.w
"""


def test_tree(folder: Path) -> None:
    assert call("tree", str(folder / "network.nir")).out == TREE
    assert call("tree", "-", stdin=(folder / "network.nir").read_bytes()).out == TREE


def test_show(folder: Path) -> None:
    assert call("show", str(folder / "network.nir"), "rec").out.startswith("def forward(self, x, state=None):\n")


def test_run(folder: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "out.npy", tmp_path / "spikes.png"
    answer = call(
        "run", str(folder / "network.nir"), str(folder / "input.npy"),
        "-o", str(out), "--dynamics", "snntorch", "--plot", str(picture),
    )  # fmt: skip
    assert (answer.code, answer.out) == (0, ""), answer
    xs = torch.from_numpy(np.load(folder / "input.npy"))
    ys, _ = from_nir(folder / "network.nir", dynamics="snntorch").run(xs)
    assert np.array_equal(np.load(out), ys.detach().numpy())
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_rules_that_a_file_notes_are_taken(folder: Path, tmp_path: Path) -> None:
    noted, copied, out = tmp_path / "noted.nir", tmp_path / "copied.nir", tmp_path / "y.npy"
    write(to_nir(from_nir(folder / "network.nir", dynamics="rockpool")), noted)
    assert call("convert", str(noted), str(copied)).code == 0
    xs = torch.from_numpy(np.load(folder / "input.npy"))
    expected, _ = from_nir(folder / "network.nir", dynamics="rockpool").run(xs)
    other, _ = from_nir(folder / "network.nir").run(xs)
    assert not torch.equal(expected, other)
    for file in (noted, copied):
        assert call("run", str(file), str(folder / "input.npy"), "-o", str(out)).code == 0
        assert np.array_equal(np.load(out), expected.detach().numpy())


def test_run_records(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    names = ["rec.lif", "rec.lif:v"]
    args = ["run", str(folder / "network.nir"), str(folder / "input.npy"), "-o", str(out)]
    assert call(*args, "-r", names[0], "-r", names[1]).code == 0
    found = np.load(out)
    assert sorted(found) == ["output", *names]
    assert found["rec.lif:v"].shape == (20, 8)
    args[-1] = "x.npy"
    refused(*args, "-r", "rec.lif", found="ends with .npz")


def test_inputs_that_are_none(folder: Path, tmp_path: Path) -> None:
    network, out = str(folder / "network.nir"), str(tmp_path / "out.npy")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.save(tmp_path / "wrong.npy", np.zeros((5, 3)))
    refused("run", network, str(tmp_path / "nothing.npy"), "-o", out, found="there is no file")
    refused("run", network, str(tmp_path / "objects.npy"), "-o", out, found="can't be read as arrays")
    refused("run", network, network, "-o", out, found="can't be read as arrays")
    refused("run", network, str(folder / "model.pt2"), "-o", out, found="something else than arrays")
    refused("run", network, str(tmp_path / "wrong.npy"), "-o", out, found="shape")
    refused("run", network, str(folder / "input.npy"), "-o", out, "--dynamics", "nest", found="'nest'")
    refused("run", network, str(folder / "input.npy"), "-o", str(tmp_path), found="directory")


def test_convert(folder: Path, tmp_path: Path) -> None:
    step, again = tmp_path / "step.pt2", tmp_path / "again.nir"
    assert call("convert", str(folder / "network.nir"), str(step), "--batch", "3").code == 0
    answer = call("check", str(step), "--times", "1")
    assert answer.code == 0, answer
    assert call("convert", str(folder / "network.nir"), str(again)).code == 0
    assert call("tree", str(again)).out == TREE
    assert read(again).nodes.keys() == {"input", "fc", "rec.lif", "rec.w", "output"}


@pytest.mark.parametrize("name", ["forward", "training", "register_buffer"])
def test_names_that_torch_export_cannot_take_are_told(tmp_path: Path, name: str) -> None:
    made = nir.NIRGraph({"i": source(1), name: gain(3), "o": sink(1)}, [("i", name), (name, "o")])
    network = str(tmp_path / "network.nir")
    nir.write(network, made)
    assert f"  {name} " in call("tree", network).out
    found = f"module '{name}' has the name of an attribute of its parent's class"
    refused("convert", network, str(tmp_path / "step.pt2"), found=found)
    refused("source", network, str(tmp_path / "net"), found=found)


def test_draw(folder: Path, tmp_path: Path) -> None:
    assert call("draw", str(folder / "network.nir"), "-o", str(tmp_path / "net.dot")).code == 0
    assert (tmp_path / "net.dot").read_text().startswith("digraph")


@pytest.mark.parametrize("command", ["check", "stats", "diff"])
def test_networks_where_programs_are_wanted(folder: Path, command: str) -> None:
    network = str(folder / "network.nir")
    refused(command, network, *([network] if command == "diff" else []), found="this command is for exported programs")
