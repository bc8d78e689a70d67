"""Arguments and results as JSON, and back.

Numbers, strings, None and booleans are themselves. Everything else is a list whose first item says what it is.
A tensor, or a size that may vary, is `["value", number]`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

from unflatten import _torch
from unflatten._torch import TreeSpec
from unflatten.fields import Fields, fields_of, make
from unflatten.recording.naming import find, name_of

_GRAPH_VALUES = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
"""What a graph computes with: the values of arguments that are not constants."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A value of the graph, by number."""

    number: int


class UnreadableError(Exception):
    """Something was passed that can't be written down, or not be found again."""


Numbering = Callable[[Any], "int | None"]
"""The number of a tensor or of a size that may vary; None where the graph does not have it."""


class Encoder:
    """Writes values as JSON.

    Args:
        number: how values of the graph are numbered.
    """

    def __init__(self, number: Numbering) -> None:
        self._number = number
        self._open: set[int] = set()

    def encode(self, value: Any) -> Any:
        """A value as JSON; what can't be written down as `["unknown", what it is]`."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, _GRAPH_VALUES):
            number = self._number(value)
            return ["value", number] if number is not None else ["unknown", "a tensor that the graph does not have"]
        if id(value) in self._open:
            return ["unknown", f"a {type(value).__name__} that contains itself"]
        self._open.add(id(value))
        try:
            return self._container(value)
        finally:
            self._open.discard(id(value))

    def _container(self, value: Any) -> Any:
        if isinstance(value, torch.Size) and all(type(size) is int for size in value):
            return ["size", list(value)]
        level = _torch.flatten_one_level(value)
        if level is None:
            return self._plain(value)
        kind, context, children = level
        parts = [self.encode(child) for child in children]
        if kind in (tuple, list):
            return [kind.__name__, *parts]
        if kind is dict:
            return ["dict", [self.encode(key) for key in context], parts]
        return ["tree", name_of(kind), self.encode(context), parts]

    def _plain(self, value: Any) -> Any:
        for name, kind, write, _ in _ATOMS:
            if isinstance(value, kind):
                return [name, write(value)]
        if isinstance(value, slice):
            return ["slice", self.encode(value.start), self.encode(value.stop), self.encode(value.step)]
        if isinstance(value, set | frozenset):
            return [type(value).__name__, *(self.encode(item) for item in sorted(value, key=repr))]
        return self._object(value)

    def _object(self, value: Any) -> Any:
        fields = fields_of(value)
        if fields is None:
            return ["unknown", f"a {type(value).__name__}"]
        return ["object", name_of(type(value)), list(fields), [self.encode(part) for part in fields.values()]]


def _enum_name(value: enum.Enum) -> list[str]:
    return [name_of(type(value)), value.name]


def _read_enum(written: list[str]) -> enum.Enum:
    member: enum.Enum = find(written[0])[written[1]]
    return member


def _read_torch(name: str) -> Any:
    return getattr(torch, name.removeprefix("torch."))


_ATOMS: tuple[tuple[str, Any, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    ("enum", enum.Enum, _enum_name, _read_enum),
    ("torch", (torch.dtype, torch.layout, torch.memory_format), str, _read_torch),
    ("device", torch.device, str, torch.device),
    ("complex", complex, lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    ("bytes", bytes, bytes.hex, bytes.fromhex),
    ("range", range, lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    ("ellipsis", type(...), lambda _: None, lambda _: ...),
    ("named", (type, FunctionType, BuiltinFunctionType), name_of, find),
)
_READERS: Mapping[str, Callable[[Any], Any]] = {"size": torch.Size, **{name: read for name, _, _, read in _ATOMS}}
_CONTAINERS: Mapping[str, type] = {"tuple": tuple, "list": list}
_PLAIN = (tuple, list, dict)
_SETS: Mapping[str, Callable[[list[Any]], Any]] = {"set": set, "frozenset": frozenset}


def decode(written: Any) -> tuple[TreeSpec, list[Any]]:
    """How a written value nests, and its leaves: constants, and a `Reference` for each value of the graph.

    Raises:
        UnreadableError: part of it could not be written down, or its class is not to be found.
    """
    if not isinstance(written, list):
        return _torch.LEAF, [written]
    kind, *rest = written
    if kind in _CONTAINERS:
        return _node(_CONTAINERS[kind], None, rest)
    if kind == "dict":
        return _node(dict, [constant(key) for key in rest[0]], rest[1])
    if kind == "tree":
        return _node(_find(rest[0]), constant(rest[1]), rest[2])
    if kind == "object":
        return _read_object(*rest)
    if kind == "value":
        return _torch.LEAF, [Reference(rest[0])]
    return _torch.LEAF, [_read_plain(kind, rest)]


def _node(kind: Any, context: Any, written: list[Any]) -> tuple[TreeSpec, list[Any]]:
    parts = [decode(part) for part in written]
    if kind not in _PLAIN and not isinstance(context, Fields) and any(_has_objects(spec) for spec, _ in parts):
        raise UnreadableError(f"an object with tensors in it inside of a {kind.__name__}")
    return _torch.tree_spec(kind, context, [spec for spec, _ in parts]), [
        leaf for _, leaves in parts for leaf in leaves
    ]


def _has_objects(spec: TreeSpec) -> bool:
    return isinstance(spec.context, Fields) or any(_has_objects(child) for child in spec.children())


def _read_object(name: str, names: list[str], written: list[Any]) -> tuple[TreeSpec, list[Any]]:
    """An object that holds values of the graph nests; any other is a constant."""
    kind = _find(name)
    spec, leaves = _node(kind, Fields(tuple(names)), written)
    if any(isinstance(leaf, Reference) for leaf in leaves):
        return spec, leaves
    return _torch.LEAF, [make(kind, **dict(zip(names, map(constant, written), strict=True)))]


def _read_plain(kind: str, rest: list[Any]) -> Any:
    if kind == "slice":
        return slice(*map(constant, rest))
    if kind in _SETS:
        return _SETS[kind](list(map(constant, rest)))
    if kind not in _READERS:
        raise UnreadableError(str(rest[0]) if rest else kind)
    try:
        return _READERS[kind](rest[0])
    except (LookupError, AttributeError) as error:
        raise UnreadableError(str(error)) from error


def constant(written: Any) -> Any:
    """A written value that has nothing of the graph in it.

    Raises:
        UnreadableError: part of it could not be written down, or its class is not to be found.
    """
    spec, leaves = decode(written)
    return _torch.rebuild(leaves, spec)


def _find(name: str) -> Any:
    try:
        return find(name)
    except LookupError as error:
        raise UnreadableError(str(error)) from error
