"""Patterns of module paths: names, globs and ranges, component by component.

A component is a name, a glob in the manner of `fnmatch`, a range of numbers `[0:4]` or `[0-3]`, or `**` for any number
of components. A range may also follow a name directly: `layers[0:4]` is `layers.[0:4]`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from unflatten.errors import UnknownPathError
from unflatten.paths import ROOT, ModulePath

_RANGE = re.compile(r"\[(-?\d*)([:-])(-?\d*)\]")
_NUMBER = re.compile(r"\[(\d+)\]")
_JOINED = re.compile(r"(?<=[^.])(?=\[-?\d*[:\-]?-?\d*\])")


def components(pattern: str) -> list[str]:
    """The components of a pattern.

    >>> components("layers[0:4].*.mlp"), components("layers[3].attn")
    (['layers', '[0:4]', '*', 'mlp'], ['layers', '3', 'attn'])
    """
    parts = [part for piece in pattern.split(".") for part in _JOINED.split(piece)] if pattern else []
    return [_NUMBER.sub(r"\1", part) for part in parts]


def is_pattern(text: str) -> bool:
    """Whether a text may match several paths."""
    return any(set("*?[") & set(part) for part in components(text))


def matching(pattern: str, children: Mapping[ModulePath, Sequence[str]], start: ModulePath = ROOT) -> list[ModulePath]:
    """The paths that match, parents before children, siblings in order.

    Args:
        pattern: the pattern; a path that is spelled like it counts alone.
        children: the names inside each path.
        start: what the pattern is relative to.
    """
    exact = ModulePath((*start.names, *pattern.split("."))) if pattern else start
    if exact in children:
        return [exact]
    found: list[ModulePath] = [start]
    for part in components(pattern):
        if part == "**":
            found = list(dict.fromkeys(path for start in found for path in _below(start, children)))
        else:
            found = [path / name for path in found for name in _names(part, children.get(path, ()))]
    return found


def _below(start: ModulePath, children: Mapping[ModulePath, Sequence[str]]) -> Iterable[ModulePath]:
    stack = [start]
    while stack:
        path = stack.pop()
        yield path
        stack.extend(path / name for name in reversed(children.get(path, ())))


def _names(part: str, siblings: Sequence[str]) -> list[str]:
    if part in siblings:
        return [part]
    cut = _RANGE.fullmatch(part)
    if cut is None:
        return [name for name in siblings if fnmatchcase(name, part)]
    first, kind, last = cut.groups()
    if kind == "-":
        low, high = int(first or 0), int(last) if last else len(siblings)
        return [name for name in siblings if name.isdecimal() and low <= int(name) <= high]
    numbered = [name for name in siblings if name.isdecimal()]
    return numbered[slice(int(first) if first else None, int(last) if last else None)]


def numbered(key: int | slice, siblings: Sequence[str]) -> list[str]:
    """Children by number: as in a list, of those whose names are numbers, or by name where one has gaps.

    >>> numbered(-1, ["0", "1", "2"]), numbered(slice(0, None, 2), ["0", "1", "2"]), numbered(7, ["0", "7"])
    (['2'], ['0', '2'], ['7'])
    """
    names = [name for name in siblings if name.isdecimal()]
    if isinstance(key, slice):
        return names[key]
    if isinstance(key, bool) or not isinstance(key, int):
        raise TypeError(f"a module is found by a path, a number or a slice, not by a {type(key).__name__}")
    if str(key) in names:
        return [str(key)]
    return [names[key]] if -len(names) <= key < 0 else []


def spelled(key: str | int | slice) -> str:
    """A key as a pattern spells it."""
    if not isinstance(key, slice):
        return str(key)
    bounds = [key.start, key.stop, *([] if key.step is None else [key.step])]
    return f"[{':'.join('' if bound is None else str(bound) for bound in bounds)}]"


def unknown(what: str, known: Iterable[str], where: str = "this view") -> UnknownPathError:
    """The error for something that is not there, with what comes near."""
    names = [name for name in known if name]
    near = difflib.get_close_matches(what, names, n=3) if len(names) <= _MANY else []
    near = near or [name for name in names if name.endswith("." + what)][:3]
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return UnknownPathError(f"there is no module {what!r} in {where}.{hint}")


_MANY = 20_000
