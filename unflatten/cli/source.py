"""`unflatten source`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unflatten.cli.options import File, Rules, Step, Trust
from unflatten.cli.output import Screen
from unflatten.cli.progress import working

Folder = Annotated[str, typer.Argument(metavar="OUT", show_default=False, help="The folder to write.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a package that was written before; other files in the folder stay.")
]


def source(
    file: File,
    folder: Folder,
    overwrite: Overwrite = False,
    dynamics: Rules = None,
    dt: Step = None,
    trust: Trust = False,
) -> None:
    """Write a program or network as a Python package that needs only torch and safetensors, to read, edit and train.

    unflatten source model.pt2 model
    unflatten source network.nir network --dynamics norse
    """
    from unflatten.cli.opening import anything, built, is_program, nested
    from unflatten.source import write

    found = anything(file, trust)
    tree = nested(found) if is_program(found) else built(found, dynamics, dt)
    with working("writing"):
        write(tree, folder, overwrite=overwrite)
    Screen(sys.stderr).line(f"wrote {folder}")
