"""`unflatten show`."""

from __future__ import annotations

from typing import Annotated

import typer

from unflatten.cli.options import File, PathArgument, Rules, Trust
from unflatten.cli.output import Screen

All = Annotated[bool, typer.Option("--all", "-a", help="Show the modules inside too, each class once.")]


def show(
    file: File, path: PathArgument = "", everything: All = False, dynamics: Rules = None, trust: Trust = False
) -> None:
    """Show the forward of one module as Python; the root's without PATH.

    unflatten show model.pt2
    unflatten show model.pt2 layers.0.self_attn
    unflatten show model.pt2 layers.0 --all > layer.py
    """
    from unflatten import Info, UnflattenedModule
    from unflatten.cli.opening import anything, built, is_program, nested
    from unflatten.cli.paths import module_at

    found = anything(file, trust)
    tree = nested(found) if is_program(found) else built(found, dynamics, None)
    module = module_at(tree, path)
    screen = Screen()
    if not isinstance(module, UnflattenedModule):
        name = f"{type(module).__module__}.{type(module).__qualname__}"
        screen.code(f"# {path} is a genuine {name}:\n{module!r}")
    elif everything:
        screen.code(Info(module).print_readable())
    elif not Info(module).bodies:
        screen.code(f"# {path or 'the root'} is never called; it holds:\n{module!r}")
    else:
        screen.code(Info(module).code)
