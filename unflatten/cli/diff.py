"""`unflatten diff`."""

from __future__ import annotations

from typing import Annotated

import typer

from unflatten.cli.faults import DIFFERENT
from unflatten.cli.options import Trust
from unflatten.cli.output import Screen

First = Annotated[str, typer.Argument(metavar="A", show_default=False, help="An exported program; - is stdin.")]
Second = Annotated[str, typer.Argument(metavar="B", show_default=False, help="Another one.")]


def diff(first: First, second: Second, trust: Trust = False) -> None:
    """Show which operators two programs have that the other has not, module by module.

    Their order inside of a module does not count. Exits with 1 where there is a difference.

    unflatten diff before.pt2 after.pt2
    """
    from unflatten import GraphView
    from unflatten import diff as difference
    from unflatten.cli.faults import CommandError
    from unflatten.cli.opening import STDIN, program

    if first == second == STDIN:
        raise CommandError("only one of two files can come from standard input")
    found = difference(GraphView(program(first, trust)), GraphView(program(second, trust)))
    screen = Screen()
    screen.line(str(found))
    if found:
        raise typer.Exit(DIFFERENT)
