"""The commands of the page about the command line, on the files that the page makes."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.calling import ROOT, call

PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
MADE = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
CONSOLES = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
    (command, expected)
    for text in CONSOLES
    for command, _, expected in (part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:])
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    assert MADE is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(MADE.group(1), "page", "exec"), {"__name__": "page"})
    return folder


def _in_a_shell(command: str, folder: Path) -> str:
    script = folder / "bin" / "unflatten"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m unflatten "$@"\n')
    script.chmod(0o755)
    bash = shutil.which("bash")
    assert bash is not None
    env = {"PATH": f"{script.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    process = subprocess.run([bash, "-ec", command], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, ""), command
    return process.stdout


def _here(command: str) -> str:
    command, tells_code = command.removesuffix("; echo $?"), command.endswith("; echo $?")
    program, *arguments = shlex.split(command)
    assert program == "unflatten", command
    answer = call(*arguments)
    if tells_code:
        return f"{answer.out}{answer.code}\n"
    assert answer.code == 0, (command, answer)
    return answer.out


def test_commands(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one test, since the later commands read what the earlier ones wrote."""
    monkeypatch.chdir(files)
    for command, expected in COMMANDS:
        out = _in_a_shell(command, files) if set("|>") & set(command) else _here(command)
        assert not expected or doctest.OutputChecker().check_output(expected, out, FLAGS), f"$ {command}\n{out}"


def test_every_command_is_on_the_page() -> None:
    shown = {command.split()[1] for command, _ in COMMANDS if command.startswith("unflatten")}
    assert shown == {"tree", "show", "check", "source", "draw", "stats", "diff", "run", "convert"}
