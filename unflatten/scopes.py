"""Reading the module stacks that captures leave on nodes, in each of their dialects.

A stack is a mapping from a key to `(path, class)`. Only the path is alike everywhere. The key counts
the calls of a module (`...@1` is the second one) and is a mangled path (non-strict export), an object's
id (strict export) or repeats its prefix (a program that was traced again). The path may carry the name of
the variable that held the model, a `getattr` expression, or a slice of a container. The class is a type or
its name. What is read here is a `Scope`; nothing later looks at these strings again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any

from unflatten.paths import ROOT, ModuleCall, ModulePath, Scope

_MANGLED_ROOT = "L__self__"
_ROOT_SPELLINGS = ("_export_root", "L['self']")
_SLICE = re.compile(r"slice\((-?\d+|None), (-?\d+|None), (-?\d+|None)\)")


class ScopeReader:
    """Turns stacks into scopes, for one program whose module paths are known.

    Entries for modules outside of the hierarchy (made inside of a `forward`, say) are left out, so that
    their operators belong to the call that made them.

    Args:
        known: every module path of the program, parents before children, siblings in order.
        aliases: the first path of modules that have several.
    """

    def __init__(self, known: Iterable[ModulePath], aliases: Mapping[ModulePath, ModulePath]) -> None:
        self._aliases = aliases
        self._known = {str(path): path for path in known}
        self._children: dict[ModulePath, list[str]] = {}
        for path in self._known.values():
            if path != ROOT:
                self._children.setdefault(path.parent, []).append(path.name)
        self._scopes: dict[object, Scope | None] = {}
        self._calls: dict[ModuleCall, ModuleCall] = {}
        self.root_type = ""

    def read(self, meta: Mapping[str, Any]) -> Scope | None:
        """The scope that a node's metadata tells, or None where it tells nothing."""
        stack = meta.get("nn_module_stack")
        if not isinstance(stack, Mapping) or not stack:
            return None
        key = tuple(stack.items())
        try:
            return self._scopes[key]
        except KeyError:
            scope = self._scopes[key] = self._parse(stack)
            return scope
        except TypeError:  # something unhashable, which no capture writes, but a pass may
            return self._parse(stack)

    def _parse(self, stack: Mapping[Any, Any]) -> Scope | None:
        entries = [
            (str(key), value[0], value[1])
            for key, value in stack.items()
            if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
        ]
        if not entries:
            return None
        spelled = {path for _, path, _ in entries}
        calls = []
        for key, spelling, cls in entries:
            path = self._resolve(spelling, spelled)
            if path == ROOT and spelling == "":
                self.root_type = self.root_type or _type_name(cls)
            elif path is not None and path != ROOT:
                calls.append(self._call(key, spelling, path, cls))
        return tuple(calls)

    def _call(self, key: str, spelling: str, path: ModulePath, cls: object) -> ModuleCall:
        index, identity = _split_key(key, spelling)
        via = "" if spelling == str(path) or _is_root_spelling(spelling) else spelling
        first = self._aliases.get(path, path)
        call = ModuleCall(first, index, via if first == path else spelling, _type_name(cls), identity)
        return self._calls.setdefault(call, call)

    def _resolve(self, spelling: str, spelled: set[str]) -> ModulePath | None:
        """The known path that a spelling means, or None for a module outside of the hierarchy."""
        if spelling in self._known:
            return self._known[spelling]
        names: list[str] = []
        positions: list[str] | None = None
        prefix = ""
        for part in _split(spelling):
            prefix = f"{prefix}.{part}" if prefix else part
            cut = _SLICE.fullmatch(part)
            if cut:
                siblings = self._children.get(ModulePath(tuple(names)), []) if positions is None else positions
                bounds = [None if bound == "None" else int(bound) for bound in cut.groups()]
                # A sliced Sequential keeps its children's names and is called; a sliced list numbers anew.
                positions = None if prefix in spelled else siblings[slice(*bounds)]
                continue
            for name in _names(part):
                renumbered = positions is not None and name.isdigit() and int(name) < len(positions)
                names.append(positions[int(name)] if positions is not None and renumbered else name)
                positions = None
        if positions is not None or _SLICE.fullmatch(spelling.rpartition(".")[2]):
            return None
        return self._known.get(".".join(names))


def _split_key(key: str, spelling: str) -> tuple[int, str]:
    """The number of earlier calls, and the module object's identity where the key is one."""
    while key.startswith(_MANGLED_ROOT):
        key = key[len(_MANGLED_ROOT) :]
    if key == spelling:
        return 0, ""
    base, at, count = key.rpartition("@")
    index = int(count) if at and count.isdigit() else 0
    base = base if at else key
    return index, base if base.isdigit() and base != spelling else ""


def names_of(spelling: str) -> tuple[str, ...]:
    """The module names in a spelling, which may be a Python expression.

    >>> names_of("getattr(L['self'].layers[0], 'my-mod').w")
    ('layers', '0', 'my-mod', 'w')
    """
    return tuple(name for part in _split(spelling) for name in _names(part) if name)


def _split(spelling: str) -> list[str]:
    """Splits at the dots that are outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for at, char in enumerate(spelling):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "." and depth == 0:
            parts.append(spelling[start:at])
            start = at + 1
    return [*parts, spelling[start:]]


def _names(part: str) -> list[str]:
    """The module names in one part of a spelling, which may be a Python expression."""
    if part in _ROOT_SPELLINGS:
        return []
    if "(" not in part and "[" not in part:
        return [part]
    try:
        return _expression_names(ast.parse(part, mode="eval").body)
    except (SyntaxError, ValueError):
        return [part]


def _expression_names(node: ast.expr) -> list[str]:
    match node:
        case ast.Subscript(ast.Name("L"), ast.Constant("self")):
            return []
        case ast.Attribute(value, name):
            return [*_expression_names(value), *([] if name == "_modules" else [name])]
        case ast.Subscript(value, ast.Constant(key)):
            return [*_expression_names(value), str(key)]
        case ast.Call(ast.Name("getattr"), [value, ast.Constant(name)]):
            return [*_expression_names(value), str(name)]
        case ast.Name(name):
            return [] if name in _ROOT_SPELLINGS else [name]
    raise ValueError(ast.dump(node))


def _is_root_spelling(spelling: str) -> bool:
    return any(spelling.startswith(root) or f"({root}" in spelling for root in _ROOT_SPELLINGS)


def _type_name(cls: object) -> str:
    if isinstance(cls, type):
        return f"{cls.__module__}.{cls.__qualname__}"
    return cls if isinstance(cls, str) else ""
