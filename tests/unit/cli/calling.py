"""Calling commands, in this process and in others."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from unflatten.cli.app import app

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Answer:
    """What a command did.

    Attributes:
        code: its exit code.
        out: what it printed.
        err: what it said on standard error.
    """

    code: int
    out: str
    err: str


def call(*arguments: str, env: dict[str, str] | None = None, stdin: bytes | None = None) -> Answer:
    """Runs a command in this process."""
    result = CliRunner().invoke(app, list(arguments), env=env, input=stdin)
    return Answer(result.exit_code, result.stdout, result.stderr)


def call_outside(*arguments: str, env: dict[str, str] | None = None, stdin: bytes | None = None) -> Answer:
    """Runs a command as people do."""
    process = subprocess.run(
        [sys.executable, "-m", "unflatten", *arguments],
        input=stdin,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        check=False,
    )
    return Answer(process.returncode, process.stdout.decode(), process.stderr.decode())


def refused(*arguments: str, found: str, stdin: bytes | None = None) -> None:
    """The command says one thing, on one line, and ends with 2."""
    answer = call(*arguments, stdin=stdin)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("unflatten: error: ")
    assert answer.err.count("\n") == 1
    assert found in answer.err
    assert "Traceback" not in answer.err
