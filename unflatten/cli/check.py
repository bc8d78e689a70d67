"""`unflatten check`."""

from __future__ import annotations

import copy
from typing import Annotated

import typer

from unflatten.cli.faults import DIFFERENT
from unflatten.cli.options import ProgramFile, Trust
from unflatten.cli.output import Column, Screen
from unflatten.cli.progress import working

Seed = Annotated[int, typer.Option("--seed", help="For random numbers, in the inputs and in the program.")]
Times = Annotated[int, typer.Option("--times", min=1, help="How many calls to time; the fastest counts.")]
_COLUMNS = (
    Column("compared", style="cyan"),
    Column("values", numbers=True),
    Column("equal", numbers=True),
    Column("largest difference", numbers=True),
    Column("note", style="dim"),
)
_SHOWN = 4


def check(file: ProgramFile, seed: Seed = 0, times: Times = 5, trust: Trust = False) -> None:
    """Run a program flat and nested, and compare outputs, gradients, state and time.

    Inputs are the program's example inputs, or random numbers of its shapes. Exits with 1 where anything differs by
    a single bit.

    unflatten check model.pt2
    unflatten check model.pt2 --seed 1 --times 20
    """
    from unflatten.cli.comparing import Part, compared, fastest, outcome
    from unflatten.cli.inputs import arguments
    from unflatten.cli.opening import nested, program

    found = program(file, trust)
    given, origin = arguments(found, seed)
    flat, tree = copy.deepcopy(found).module(), nested(found)
    with working("running", 2 + 2 * times) as step:
        outcomes = []
        for module in (flat, tree):
            outcomes.append(outcome(module, given, seed))
            step()
        parts = compared(*outcomes)
        seconds = [fastest(module, given, times, step) for module in (flat, tree)]

    def row(part: Part) -> tuple[str, ...]:
        note = part.note or "differs: " * bool(part.different) + ", ".join(part.different[:_SHOWN])
        more = ", ..." if len(part.different) > _SHOWN else ""
        largest = "" if part.largest is None or part.note else f"{part.largest:.3g}"
        return part.name, str(part.count), str(part.count - len(part.different)), largest, note + more

    screen = Screen()
    screen.line(f"inputs: {origin}")
    screen.table(_COLUMNS, [row(part) for part in parts])
    screen.line(f"time: flat {_spelled(seconds[0])}, nested {_spelled(seconds[1])}")
    if any(part.different for part in parts):
        screen.line("different", "bold red")
        raise typer.Exit(DIFFERENT)
    screen.line("equal", "bold green")


def _spelled(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
