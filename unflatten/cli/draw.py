"""`unflatten draw`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from unflatten.cli.faults import CommandError
from unflatten.cli.options import File, PathArgument, Rules, Trust
from unflatten.cli.output import Screen
from unflatten.cli.progress import working

Out = Annotated[
    str,
    typer.Option(
        "--output", "-o", show_default=False, help="x.svg, x.html (a page), x.dot or x.json (Model Explorer)."
    ),
]
FORMATS = {".svg": "svg", ".html": "html", ".dot": "dot", ".gv": "dot", ".json": "model_explorer"}


def draw(file: File, output: Out, path: PathArgument = "", dynamics: Rules = None, trust: Trust = False) -> None:
    """Draw a program, a network, or one module of it.

    The end of the name says how: .svg needs Graphviz; .html is one page to unfold and search, without a network.

    unflatten draw model.pt2 -o model.html
    unflatten draw model.pt2 layers.0.self_attn -o attention.svg
    unflatten draw network.nir -o network.json
    """
    kind = FORMATS.get(Path(output).suffix.lower())
    if kind is None:
        raise CommandError(f"can't tell from {output!r} how to draw; end it with {', '.join(FORMATS)}")
    from unflatten import render
    from unflatten.cli.opening import anything, built, is_program

    found = anything(file, trust)
    drawn = found if is_program(found) else built(found, dynamics, None)
    with working("drawing"):
        text = getattr(render, kind)(drawn, path)
    Path(output).write_text(text, encoding="utf-8")
    Screen(sys.stderr).line(f"wrote {output}")
