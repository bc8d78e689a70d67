"""The command line. Nothing here needs torch before a command reads a file."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line on the arguments of the process."""
    try:
        from unflatten.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.stderr.write(f"unflatten: the command line needs {error.name}: pip install 'torch-unflatten[cli]'\n")
        raise SystemExit(2) from None
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names may hold what the terminal can't show
    app(prog_name="unflatten")
