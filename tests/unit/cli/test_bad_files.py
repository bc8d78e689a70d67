"""Files that are bad: one message, exit code 2, and nothing of them runs."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import h5py
import nir
import numpy as np
import pytest
import torch

from tests.support.nir_graphs import lif, sink, source
from tests.unit.cli.calling import call, refused
from tests.unit.files.archives import bomb, changed, with_text


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("command", ["tree", "check", "stats", "show"])
def test_no_file_for_unflatten(tmp_path: Path, command: str) -> None:
    refused(command, str(tmp_path / "nothing"), found="there is no file")
    refused(command, str(tmp_path), found="is a directory")
    refused(command, _written(tmp_path / "empty", b""), found="is empty")
    refused(command, _written(tmp_path / "text", b"hello"), found="neither a zip archive")
    refused(command, _written(tmp_path / "pickle", b"\x80\x04N."), found="a bare pickle")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.pt2"
    path.write_bytes(b"PK\x03\x04")
    path.chmod(0)
    if os.access(path, os.R_OK):  # as root, who may read everything

        def denied(self: Path, *_: object) -> None:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "open", denied)
    refused("tree", str(path), found="Permission denied")


@pytest.mark.parametrize("part", [0.02, 0.3, 0.9, 0.999])
def test_files_that_are_cut_off(folder: Path, tmp_path: Path, part: float) -> None:
    for name in ("model.pt2", "network.nir"):
        content = (folder / name).read_bytes()
        answer = call("tree", _written(tmp_path / name, content[: int(len(content) * part)]))
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("unflatten: error: ")
        assert answer.err.count("\n") == 1
        assert name in answer.err


def test_other_archives(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("hello.txt", "hello")
    refused("tree", _written(tmp_path / "a.zip", file.getvalue()), found="holds no exported program")
    torch.save({"weight": torch.ones(2)}, tmp_path / "weights.pt")
    refused("tree", str(tmp_path / "weights.pt"), found="what torch.save wrote")


def test_a_pickle_with_code(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    content = (folder / "model.pt2").read_bytes()
    evil = changed(content, lambda records: records.update({"data/sample_inputs/model.pt": bomb(mark)}))
    path = _written(tmp_path / "evil.pt2", evil)
    for command in (["tree"], ["show"], ["check"], ["stats"], ["draw", "-o", str(tmp_path / "x.dot")]):
        refused(command[0], path, *command[1:], found="(--trust)")
    refused("diff", path, path, found="posix.mkdir")
    refused("convert", path, "x.nir", found="posix.mkdir")
    refused("source", path, str(tmp_path / "package"), found="posix.mkdir")
    assert not mark.exists()
    assert call("tree", path, "--trust").code == 0
    assert mark.exists()


def test_a_program_of_another_torch(folder: Path, tmp_path: Path) -> None:
    def edit(program: dict[str, object]) -> None:
        program["schema_version"] = {"major": 99, "minor": 0}
        program["torch_version"] = "9.9.9"

    path = _written(tmp_path / "new.pt2", with_text((folder / "model.pt2").read_bytes(), edit))
    refused("tree", path, found="It was written by torch 9.9.9, and this is torch")


def test_an_operator_that_is_not_known_here(folder: Path, tmp_path: Path) -> None:
    def edit(program: dict[str, object]) -> None:
        text = json.dumps(program).replace("torch.ops.aten.gelu.default", "torch.ops.mine.op.default")
        program.update(json.loads(text))

    path = _written(tmp_path / "custom.pt2", with_text((folder / "model.pt2").read_bytes(), edit))
    refused("tree", path, found="torch.ops.mine.op.default")


def test_an_empty_program(folder: Path) -> None:
    refused("tree", str(folder / "empty.pt2"), found="holds an empty program")


def test_hdf5_that_is_no_graph(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.nir", "w") as file:
        file["x"] = 1
    refused("tree", str(tmp_path / "other.nir"), found="has no 'node'")


def test_names_that_would_do_something_to_a_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    name = f"[red]{evil}[/red]\n"
    graph = nir.NIRGraph({"i": source(1), name: lif(), "o": sink(1)}, [("i", name), (name, "o")], type_check=False)
    nir.write(tmp_path / "hostile.nir", graph)
    for env in ({}, {"FORCE_COLOR": "1", "COLUMNS": "200"}):
        answer = call("tree", str(tmp_path / "hostile.nir"), env=env)
        assert answer.code == 0
        assert r"[red]\x1b]0;owned\x07\x1b[2J\u202e[/red]\n" in answer.out
        assert not set("\x07\u202e") & set(answer.out)
        assert "\x1b[2J" not in answer.out
        assert "\x1b]" not in answer.out
    answer = call("show", str(tmp_path / "hostile.nir"), env={"FORCE_COLOR": "1"})
    assert answer.code == 0
    assert "\x1b]" not in answer.out


def test_messages_with_names_that_would(tmp_path: Path) -> None:
    name = "\x1b[2Jx"
    graph = nir.NIRGraph({"i": source(1), name: lif()}, [("i", name), (name, "gone")], type_check=False)
    nir.write(tmp_path / "hostile.nir", graph)
    answer = call("tree", str(tmp_path / "hostile.nir"))
    assert answer.code == 2
    assert "\x1b" not in answer.err
    refused("tree", str(tmp_path / "a\x1b[2Jb"), found=r"\x1b[2J")


def test_traceback_wherever_it_is_written(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    for arguments in (["--traceback", "tree", missing], ["tree", missing, "--traceback"]):
        answer = call(*arguments)
        assert answer.code == 2
        assert answer.err.startswith("Traceback (most recent call last):\n")
        assert "unflatten: error: there is no file" in answer.err


def test_a_fault_of_ours_is_one_message(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr("unflatten.cli.trees.program_rows", fail)
    refused("tree", str(folder / "model.pt2"), found="ZeroDivisionError: one (--traceback")


def test_usage(folder: Path) -> None:
    assert call("tree").code == 2
    assert call("trees", str(folder)).code == 2
    assert call("stats", str(folder / "model.pt2"), "--by", "beauty").code == 2
    assert call("run", str(folder / "network.nir"), str(np.__file__)).code == 2
