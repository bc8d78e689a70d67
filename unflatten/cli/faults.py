"""Errors of commands: one message on standard error, and exit code 2."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from unflatten.cli.text import clean
from unflatten.errors import UnflattenError

DIFFERENT = 1
"""The exit code of commands that compare, where there is a difference."""
FAILED = 2
"""The exit code where a command can't do its work."""
_FLAG = "--traceback"


class CommandError(UnflattenError, ValueError):
    """A command can't do what it was asked for."""


class Commands(TyperGroup):
    """The commands, with errors told in one message, and `--traceback` wherever people write it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments."""
        end = args.index("--") if "--" in args else len(args)
        if _FLAG in args[:end]:
            args = [_FLAG, *(each for each in args[:end] if each != _FLAG), *args[end:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns about its own affairs
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
        except BrokenPipeError:
            _close_output()
        except Exception as error:  # whatever it is, people get one message
            if type(error).__module__.partition(".")[0] in ("typer", "click"):
                raise
            _tell(error, ctx.params.get("traceback", False))
            raise typer.Exit(FAILED) from None
        raise typer.Exit(0)


def _tell(error: Exception, everything: bool) -> None:
    if everything:
        sys.stderr.write(clean("".join(traceback.format_exception(error))))
    sys.stderr.write(f"unflatten: error: {clean(_message(error))}\n")


def _message(error: Exception) -> str:
    if isinstance(error, UnflattenError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, ModuleNotFoundError):
        return f"this command needs {error.name}: pip install 'torch-unflatten[cli,nir]'"
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {text} ({_FLAG} shows where it comes from)"


def _close_output() -> None:
    """Whoever read the output has gone: nothing more is written, at the end of the process neither."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
