"""Modules that people name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from unflatten.cli.trees import Row, walk
from unflatten.errors import UnknownPathError

if TYPE_CHECKING:
    from torch import nn

    from unflatten.view.region import Region
    from unflatten.view.view import GraphView


def below(rows: Sequence[Row], path: str, depth: int | None) -> list[Row]:
    """The rows of a module and those inside, down to some level.

    Raises:
        UnknownPathError: there is no such module.
    """
    names = {".".join(row.path): row.path for row in rows}
    if path not in names:
        raise _unknown(path, names)
    top = names[path]
    inside = [row for row in rows if row.path[: len(top)] == top]
    return [row for row in inside if depth is None or len(row.path) - len(top) <= depth]


def module_at(tree: nn.Module, path: str) -> nn.Module:
    """The module that a path leads to.

    Raises:
        UnknownPathError: there is none.
    """
    modules = {".".join(names): module for names, module in walk(tree)}
    if path not in modules:
        raise _unknown(path, modules)
    return modules[path]


def region_at(view: GraphView, path: str) -> Region:
    """The region that a path leads to.

    Raises:
        UnknownPathError: there is none.
    """
    known = {str(each): each for each in view.index.children}
    if path not in known:
        raise _unknown(path, known)
    region = view.root
    for name in known[path].names:
        region = region.children[name]
    return region


def _unknown(path: str, known: Iterable[str]) -> UnknownPathError:
    near = difflib.get_close_matches(path, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else "'unflatten tree FILE' lists the modules"
    return UnknownPathError(f"there is no module {path!r}; {hint}")
