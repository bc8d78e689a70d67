"""What depends on where a command runs: width, colours, pipes, completion, and how soon it starts."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.cli.calling import call, call_outside
from unflatten.cli import progress
from unflatten.cli.completing import complete_path, module_paths
from unflatten.cli.stats import bar


def test_help_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from unflatten.cli.app import app\n"
        "for arguments in (['--help'], ['tree', '--help'], ['tree', '/nothing']):\n"
        "    try:\n"
        "        app(arguments)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "sys.exit(sum(name in sys.modules for name in ('torch', 'numpy', 'sympy', 'matplotlib', 'h5py')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("command", ["tree", "show", "check", "source", "draw", "stats", "diff", "run", "convert"])
def test_help_teaches_by_example(command: str) -> None:
    answer = call(command, "--help")
    assert answer.code == 0
    assert f"unflatten {command} " in answer.out.partition("Arguments")[0].partition("Usage:")[2].partition("\n")[2]


def test_pipes_get_plain_lines_of_any_length(folder: Path) -> None:
    narrow = call("tree", str(folder / "model.pt2"), env={"COLUMNS": "20"})
    assert (narrow.code, narrow.err) == (0, "")
    assert narrow.out == call("tree", str(folder / "model.pt2"), env={"COLUMNS": "200"}).out
    assert "\x1b" not in narrow.out


def test_pipes_that_have_a_name(folder: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=((folder / "network.nir").read_bytes(),))
    writer.start()
    answer = call("tree", str(pipe))
    writer.join()
    assert answer.out == call("tree", str(folder / "network.nir")).out


def test_version() -> None:
    answer = call("--version")
    assert (answer.code, answer.out) == (0, f"unflatten {version('torch-unflatten')}\n")


def test_terminals_get_colours_and_their_width(folder: Path) -> None:
    wide = {"FORCE_COLOR": "1", "COLUMNS": "60", "TERM": "xterm-256color"}
    coloured = call("tree", str(folder / "model.pt2"), env=wide).out
    assert "\x1b[" in coloured
    plain = call("tree", str(folder / "model.pt2"), env={**wide, "NO_COLOR": "1"}).out
    assert max(map(len, plain.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "").splitlines())) <= 64
    assert "\x1b[36m" in coloured
    assert "\x1b[36m" not in plain
    assert "\x1b[" in call("show", str(folder / "model.pt2"), env=wide).out


def test_a_reader_that_goes(folder: Path) -> None:
    command = f"{sys.executable} -m unflatten tree {folder / 'model.pt2'} | true; echo ${{PIPESTATUS[0]}}"
    bash = shutil.which("bash")
    assert bash is not None
    process = subprocess.run([bash, "-c", command], capture_output=True, text=True, check=False)
    assert process.stderr == ""
    assert process.stdout == "0\n"


def test_paths_are_completed(folder: Path) -> None:
    env = {"_UNFLATTEN_COMPLETE": "complete_bash", "COMP_WORDS": f"unflatten tree {folder / 'model.pt2'} -p blocks."}
    assert call_outside(env={**env, "COMP_CWORD": "4"}).out == "blocks.0\nblocks.1\n"


def test_paths_of_other_files_are_not_completed(folder: Path, tmp_path: Path) -> None:
    class Context:
        params: dict[str, str]
        args: list[str]

    context = Context()
    context.args = []
    for name in (str(folder / "network.nir"), str(tmp_path), str(tmp_path / "nothing"), "-"):
        context.params = {"file": name}
        assert complete_path(context, "") == []
    context.params = {"file": str(folder / "model.pt2")}
    assert complete_path(context, "") == ["blocks", "head"]
    assert module_paths(folder / "model.pt2")[:4] == ["blocks", "blocks.0", "blocks.0.mlp", "blocks.0.mlp.0"]


def test_bars_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert bar(5, 10) == "#" * 10


@pytest.mark.parametrize(
    ("is_terminal", "seconds", "shown"), [(True, 0.1, True), (True, 0.0, False), (False, 0.1, False)]
)
def test_progress(monkeypatch: pytest.MonkeyPatch, is_terminal: bool, seconds: float, shown: bool) -> None:
    written = io.StringIO()
    monkeypatch.setattr(progress, "DELAY", 0.02)
    monkeypatch.setattr(progress, "Console", lambda file: Console(file=written, force_terminal=is_terminal))
    with progress.working("[red]reading\x1b[2J", 2) as step:
        time.sleep(seconds)
        step()
    assert (r"[red]reading\x1b[2J" in written.getvalue()) is shown
