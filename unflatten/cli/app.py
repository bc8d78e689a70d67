"""The commands together."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated

import typer

from unflatten.cli.check import check
from unflatten.cli.convert import convert
from unflatten.cli.diff import diff
from unflatten.cli.draw import draw
from unflatten.cli.faults import Commands
from unflatten.cli.run import run
from unflatten.cli.show import show
from unflatten.cli.source import source
from unflatten.cli.stats import stats
from unflatten.cli.tree import tree

_EXAMPLES = re.compile(r"\n\n(?=(?:cat .*\| )?unflatten )")


def _help(function: Callable[..., None]) -> str:
    """The docstring of a command, with its examples marked so that they keep their lines."""
    return _EXAMPLES.sub("\n\n\b\n", inspect.cleandoc(function.__doc__ or ""))


app = typer.Typer(
    name="unflatten",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"unflatten {version('torch-unflatten')}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error comes from.")] = False,
) -> None:
    """Look into exported PyTorch programs (.pt2) and NIR spiking networks (.nir), run them, and go on from there.

    unflatten tree model.pt2                what is in it
    unflatten show model.pt2 layers.0       one module as Python
    unflatten check model.pt2               is it the same as the flat program?
    unflatten source model.pt2 model        a Python package of it
    unflatten draw model.pt2 -o model.html  a page to look through
    unflatten run net.nir in.npy -o out.npy a spiking network on a series

    Exit codes: 0 all is well, 1 there is a difference, 2 an error.
    """


app.callback(help=_help(options))(options)
for command in (tree, show, check, source, draw, stats, diff, run, convert):
    app.command(help=_help(command))(command)
