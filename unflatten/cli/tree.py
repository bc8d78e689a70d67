"""`unflatten tree`."""

from __future__ import annotations

from typing import Annotated

import typer

from unflatten.cli.options import File, PathOption, Rules, Trust
from unflatten.cli.output import Column, Screen

Depth = Annotated[int | None, typer.Option("--depth", "-d", min=0, show_default=False, help="How many levels to show.")]
_COLUMNS = (
    Column("module", style="cyan"),
    Column("class", style="bold green"),
    Column("parameters", numbers=True),
    Column("buffers", numbers=True),
    Column("nodes", numbers=True),
    Column("takes and gives", style="dim"),
)


def tree(file: File, depth: Depth = None, path: PathOption = "", dynamics: Rules = None, trust: Trust = False) -> None:
    """Show the modules in a file: classes, parameters, operators, shapes.

    unflatten tree model.pt2
    unflatten tree model.pt2 --depth 2
    unflatten tree model.pt2 --path layers.0
    unflatten tree network.nir
    cat model.pt2 | unflatten tree -
    """
    from unflatten.cli.opening import anything, built, is_program
    from unflatten.cli.paths import below
    from unflatten.cli.trees import network_rows, program_rows

    found = anything(file, trust)
    network = None if is_program(found) else built(found, dynamics, None)
    rows = program_rows(found) if network is None else network_rows(network, found)
    kept = below(list(rows), path, depth)
    screen = Screen()
    screen.table(
        _COLUMNS,
        [
            (
                "  " * (len(row.path) - len(kept[0].path)) + (".".join(row.path) or "(root)"),
                row.type_name,
                f"{row.parameters:,}",
                f"{row.buffers:,}" if row.buffers else "",
                row.nodes,
                row.calls,
            )
            for row in kept
        ],
    )
    if network is not None and network.delayed_edges and not path:
        screen.line()
        for source, target in network.delayed_edges:
            screen.line(f"one step late: {source} -> {target}")
