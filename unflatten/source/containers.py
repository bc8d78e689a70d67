"""Containers and objects that Python has no display for: how code makes them, and where their classes come from."""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unflatten import _torch
from unflatten._torch import TreeSpec
from unflatten.code.nesting import Item, accesses
from unflatten.errors import SourceError
from unflatten.source.formatting import WIDTH
from unflatten.source.text import quoted

_OPERATORS = frozenset(
    {"aten", "prims", "prim", "quantized", "quantized_decomposed", "higher_order", "_c10d_functional"}
)
_STANDARD = frozenset({"collections", "math", "operator", "builtins"})


@dataclass(slots=True)
class Imports:
    """What a file imports besides torch.

    Attributes:
        modules: the modules that are imported by name.
        classes: classes of other packages, by the name that the file has for them.
        plain: what stands in for each of them where it can't be imported.
        as_dicts: classes of mappings for which plain dicts stand.
        operators: custom operators, with the module that registers each, where that is known.
        parameters: the parameters of the function that is being written, which hide names of the file.
        used: the names of the file that this function uses.
    """

    modules: set[str] = field(default_factory=set)
    classes: dict[str, type] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)
    operators: dict[str, str] = field(default_factory=dict)
    as_dicts: frozenset[type] = frozenset()
    parameters: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)

    def within(self, parameters: Collection[str]) -> Imports:
        """The same imports, for a function that has parameters of some names."""
        return replace(self, parameters=frozenset(parameters), used=set())

    def seen(self, name: str) -> str:
        """How a function names something that the file has under a name."""
        self.used.add(name)
        return f"globals()[{quoted(name)}]" if name in self.parameters else name

    def function(self, target: Any) -> str:
        """How code names a function.

        Raises:
            SourceError: no import leads to it, or not one of torch or Python.
        """
        module, name = str(getattr(target, "__module__", "") or ""), str(getattr(target, "__qualname__", "") or "")
        module = {"_operator": "operator", "_collections": "collections"}.get(module, module)
        if module.partition(".")[0] not in ({"torch"} | _STANDARD) or found_at(module, name) is not target:
            raise SourceError(
                f"the program uses {target!r}, which is neither an operator nor a function of torch or Python. "
                "Make it a custom operator with torch.library.custom_op."
            )
        return self.within_module(module, name)

    def within_module(self, module: str, name: str) -> str:
        """How code names something in a module of torch or Python."""
        self.modules.add(module)
        top, dot, rest = module.partition(".")
        return f"{self.seen(top)}{dot}{rest}.{name}"

    def operator(self, target: Any) -> None:
        """Notes an operator that torch itself may not have."""
        if isinstance(target, _torch.OpOverload) and target.namespace not in _OPERATORS:
            name = str(target._schema.name)
            self.operators[name] = _torch.registering_module(name)

    def kind(self, kind: type, plain: str) -> str:
        """How code names a class; `plain` is what stands in for it where it can't be imported."""
        name = kind.__qualname__
        if found_at(kind.__module__, name) is not kind or not name.isidentifier() or keyword.iskeyword(name):
            raise SourceError(f"the program takes or returns a {kind!r}, which no import leads to")
        if kind.__module__ in _STANDARD or kind.__module__ == "torch.return_types":
            return self.within_module(kind.__module__, name)
        if self.classes.setdefault(name, kind) is not kind:
            raise SourceError(f"the program uses two classes of the name {name}")
        self.plain[name] = plain
        return self.seen(name)

    def lines(self) -> Iterator[str]:
        """The import statements after those of torch."""
        for name, kind in sorted(self.classes.items()):
            line = f"    from {kind.__module__} import {name}"
            long = ["    from " + kind.__module__ + " import (", f"        {name},", "    )"]
            yield from ("", "try:", *(long if len(line) > WIDTH else [line]))
            yield from (
                "except ImportError:  # a plain container has the same items",
                f"    {name} = {self.plain[name]}",
            )


def found_module(name: str) -> bool:
    """Whether a module has a name that another process can import it by."""
    return name not in ("", "__main__") and all(part.isidentifier() and part.isascii() for part in name.split("."))


def found_at(module: str, name: str) -> Any:
    """What is imported by a name, None where nothing is."""
    if not all(part.isidentifier() and part.isascii() for part in (*module.split("."), *name.split("."))):
        return None
    try:
        value: Any = importlib.import_module(module)
    except ImportError:
        return None
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def container(spec: TreeSpec, leaves: Sequence[Any], imports: Imports, show: Callable[[Any], str]) -> str:
    """Code that makes a container.

    Args:
        spec: how it nests.
        leaves: what is in it.
        imports: gets the classes that are needed.
        show: writes a leaf.

    Raises:
        SourceError: nothing but pytree makes such a container.
    """
    if spec.is_leaf():
        return show(leaves[0])
    parts, at = [], 0
    for child in spec.children():
        parts.append(container(child, leaves[at : at + child.num_leaves], imports, show))
        at += child.num_leaves
    if spec.type is tuple:
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if spec.type is list:
        return f"[{', '.join(parts)}]"
    if spec.type is dict or spec.type in imports.as_dicts:
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(spec.context, parts, strict=True)) + "}"
    return _called(spec, parts, imports)


def _called(spec: TreeSpec, parts: Sequence[str], imports: Imports) -> str:
    one_level = TreeSpec(spec.type, spec.context, [_torch.LEAF] * len(parts))
    marks = [object() for _ in parts]
    whole = _torch.rebuild(list(marks), one_level)
    kind = type(whole)
    names = _names(one_level)
    if names and _makes(lambda: kind(**dict(zip(names, marks, strict=True))), one_level, marks):
        shown = imports.kind(kind, "dict")
        return f"{shown}({', '.join(f'{name}={part}' for name, part in zip(names, parts, strict=True))})"
    items = _keys(one_level)
    if items and _makes(lambda: kind(zip(items, marks, strict=True)), one_level, marks):
        pairs = ", ".join(f"({key!r}, {part})" for key, part in zip(items, parts, strict=True))
        return f"{imports.kind(kind, 'dict')}([{pairs}])"
    if _makes(lambda: kind(*marks), one_level, marks):
        fields = getattr(kind, "_fields", ())
        plain = f"namedtuple({quoted(kind.__name__)}, [{', '.join(map(quoted, fields))}])" if fields else "tuple"
        if fields:
            imports.modules.add("collections")
            plain = f"collections.{plain}"
        return f"{imports.kind(kind, plain)}({', '.join(parts)})"
    if _makes(lambda: kind(marks), one_level, marks):
        return f"{imports.kind(kind, 'list')}([{', '.join(parts)}])"
    raise SourceError(f"the program takes or returns a {kind.__qualname__}, which can't be made from its parts by name")


def _makes(make: Callable[[], Any], spec: TreeSpec, marks: Sequence[Any]) -> bool:
    """Whether a call of the class gives what pytree would."""
    try:
        made = make()
    except Exception:  # noqa: BLE001 - it is the user's class
        return False
    same = _torch.structure(made) == spec
    return same and all(a is b for a, b in zip(_torch.tree_leaves(made), marks, strict=True))


def _keys(spec: TreeSpec) -> list[Any]:
    """The keys of a container's items, where it has such."""
    found = accesses(spec)
    return [access[0].key for access in found if access and isinstance(access[0], Item)]


def _names(spec: TreeSpec) -> list[str]:
    """The names of a container's items, where it has such."""
    keys: Any = _keys(spec)
    if not keys or not all(isinstance(key, str) for key in keys):
        context = spec.context
        keys = (
            context[0] if isinstance(context, (list, tuple)) and context and isinstance(context[0], list) else context
        )
    fine = isinstance(keys, (list, tuple)) and len(keys) == spec.num_children
    return list(keys) if fine and all(isinstance(key, str) and key.isidentifier() for key in keys) else []


def object_of(kind: type, fields: Mapping[str, str], imports: Imports) -> str:
    """Code that makes an object from its fields."""
    return f"{imports.kind(kind, 'dict')}({', '.join(f'{name}={part}' for name, part in fields.items())})"
