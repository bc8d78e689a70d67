"""`unflatten stats`."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer

from unflatten.cli.options import PathOption, ProgramFile, Trust
from unflatten.cli.output import Column, Screen


class By(str, Enum):
    """What bars show."""

    FLOPS = "flops"
    BACKWARD = "backward"
    PARAMETERS = "parameters"
    ACTIVATIONS = "activations"
    SAVED = "saved"


Depth = Annotated[int | None, typer.Option("--depth", "-d", min=0, show_default=False, help="How many levels to show.")]
Bars = Annotated[By, typer.Option("--by", help="What the bars show.")]
_COLUMNS = (
    Column("module", style="cyan"),
    Column("class", style="bold green"),
    Column("flops", numbers=True),
    Column("backward", numbers=True),
    Column("parameter bytes", numbers=True),
    Column("activation bytes", numbers=True),
    Column("saved bytes", numbers=True),
    Column("", style="magenta"),
)
_WIDTH = 20
_PARTS = " ▏▎▍▌▋▊▉█"


def stats(
    file: ProgramFile, path: PathOption = "", depth: Depth = None, by: Bars = By.FLOPS, trust: Trust = False
) -> None:
    """Show what each module costs: operations, bytes of parameters and of activations.

    Nothing is run: the numbers come from the shapes in the program. Equal modules in a row share a line.

    unflatten stats model.pt2
    unflatten stats model.pt2 --depth 2 --by parameters
    unflatten stats model.pt2 --path layers.0
    """
    from dataclasses import astuple

    from unflatten import GraphView
    from unflatten.cli.opening import program
    from unflatten.cli.paths import region_at
    from unflatten.cli.progress import working

    view = GraphView(program(file, trust))
    region = region_at(view, path)
    with working("counting"):
        rows = region.costs().rows
    which = list(By).index(by)
    costs = [astuple(row.cost) for row in rows]
    most = max((cost[which] for cost in costs), default=0)
    present = [any(cost[at] for cost in costs) for at in range(len(By))]
    lines = []
    for row, cost in zip(rows, costs, strict=True):
        numbers = [f"{value:,}" if present[at] or at == which else "" for at, value in enumerate(cost)]
        name = "  " * row.depth + (row.path or "(root)")
        lines.append((name, row.type_name.rpartition(".")[2], *numbers, bar(cost[which], most)))
    shown = [line for line, row in zip(lines, rows, strict=True) if depth is None or row.depth <= depth]
    Screen().table(_COLUMNS, shown)


def bar(value: int, most: int) -> str:
    """A bar for a number beside the largest one, in eighths of a character where the output can show them.

    >>> len(bar(5, 10)), bar(0, 0)
    (10, '')
    """
    eighths = round(value * _WIDTH * 8 / most) if most else 0
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        return "#" * (eighths // 8)
    return "█" * (eighths // 8) + _PARTS[eighths % 8].strip()
