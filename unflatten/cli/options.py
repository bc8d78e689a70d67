"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from unflatten.cli.completing import complete_path

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", show_default=False, help="A program (.pt2) or a NIR graph (.nir), by content; - is stdin."
    ),
]
ProgramFile = Annotated[
    str, typer.Argument(metavar="FILE", show_default=False, help="An exported program; - is stdin.")
]
NetworkFile = Annotated[str, typer.Argument(metavar="FILE", show_default=False, help="A NIR graph; - is stdin.")]
PathArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH", show_default=False, autocompletion=complete_path, help="A module, as in layers.0.attn."
    ),
]
PathOption = Annotated[
    str,
    typer.Option(
        "--path", "-p", show_default=False, autocompletion=complete_path, help="Start at this module, not the root."
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Load what may run code of the file's writer, such as pickled objects.")
]
Rules = Annotated[
    str | None,
    typer.Option(
        "--dynamics",
        show_default="what the file notes, else nir",
        help="For NIR: the framework whose steps to take, such as norse, snntorch.",
    ),
]
Step = Annotated[
    float | None, typer.Option("--dt", show_default=False, help="For NIR: the length of a step in seconds.")
]
