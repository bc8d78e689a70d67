"""Nested arguments and results: where a leaf sits, and how to put leaves together again.

A `TreeSpec` is turned into plain values once, so that generated code can say `batch["ids"]` and
`(hidden, None)` instead of flattening and unflattening. Containers that Python has no display for go
through `torch.utils._pytree`, as export itself does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unflatten._torch import TreeSpec
from unflatten.fields import Fields
from unflatten.flat.packing import pack_spec, unpack_spec


@dataclass(frozen=True, slots=True)
class Item:
    """A step into a container: its index or key."""

    key: Any


@dataclass(frozen=True, slots=True)
class Leaf:
    """A step to one of the leaves of a container that only pytree can take apart."""

    index: int


@dataclass(frozen=True, slots=True)
class Attr:
    """A step into an object: the name of its field."""

    name: str


Access = tuple[Item | Leaf | Attr, ...]
"""The steps from a value to one of its leaves."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A container that only pytree can put together."""

    spec: TreeSpec
    leaves: tuple[Any, ...]

    def __reduce__(self) -> Any:
        return _unpack_rebuilt, (pack_spec(self.spec), self.leaves)


@dataclass(frozen=True, slots=True)
class Made:
    """An object that is no pytree, from its fields."""

    kind: type
    fields: Mapping[str, Any]


def _unpack_rebuilt(spec: Any, leaves: tuple[Any, ...]) -> Rebuilt:
    return Rebuilt(unpack_spec(spec), leaves)


def is_plain(spec: TreeSpec) -> bool:
    """Whether a node of a spec is a container that Python can display and index."""
    return spec.type in (tuple, list, dict)


def accesses(spec: TreeSpec) -> list[Access]:
    """The steps to each leaf, in the order of the leaves."""
    return list(_accesses(spec, ()))


def _accesses(spec: TreeSpec, above: Access) -> Iterator[Access]:
    if spec.is_leaf():
        yield above
    elif is_plain(spec):
        keys = spec.context if spec.type is dict else range(spec.num_children)
        for key, child in zip(keys, spec.children(), strict=True):
            yield from _accesses(child, (*above, Item(key)))
    elif (keys := _keys(spec)) is not None:
        for key, child in zip(keys, spec.children(), strict=True):
            yield from _accesses(child, (*above, Item(key)))
    elif isinstance(spec.context, Fields):
        for name, child in zip(spec.context.names, spec.children(), strict=True):
            yield from _accesses(child, (*above, Attr(name)))
    else:
        for index in range(spec.num_leaves):
            yield (*above, Leaf(index))


def _keys(spec: TreeSpec) -> Sequence[Any] | None:
    """The keys of a container that Python has no display for, but can index; None for any other."""
    if not isinstance(spec.type, type):  # pytree knows named tuples by the function that makes their classes
        return range(spec.num_children)
    context = spec.context
    by_key = issubclass(spec.type, Mapping) and isinstance(context, list) and len(context) == spec.num_children
    return context if by_key and all(isinstance(key, str) for key in context) else None


def assemble(spec: TreeSpec, leaves: Sequence[Any]) -> Any:
    """Leaves nested as a spec says: tuples, lists, dicts, `Made` for objects and `Rebuilt` for the rest."""
    if len(leaves) != spec.num_leaves:
        raise ValueError(f"the spec has {spec.num_leaves} leaves, got {len(leaves)}")
    return _assemble(spec, iter(leaves))


def _assemble(spec: TreeSpec, leaves: Iterator[Any]) -> Any:
    if spec.is_leaf():
        return next(leaves)
    if isinstance(spec.context, Fields):
        parts = [_assemble(child, leaves) for child in spec.children()]
        return Made(spec.type, dict(zip(spec.context.names, parts, strict=True)))
    if not is_plain(spec):
        return Rebuilt(spec, tuple(next(leaves) for _ in range(spec.num_leaves)))
    parts = [_assemble(child, leaves) for child in spec.children()]
    if spec.type is dict:
        return dict(zip(spec.context, parts, strict=True))
    return tuple(parts) if spec.type is tuple else parts


def reached(text: str, access: Access, leaves: str) -> str:
    """Python that goes from a value to one of its leaves.

    Args:
        text: Python for the value.
        access: the steps.
        leaves: the name of the function that takes a container apart that only pytree can.
    """
    for step in access:
        if isinstance(step, Item):
            text = f"{text}[{step.key!r}]"
        elif isinstance(step, Attr):
            text = f"{text}.{step.name}"
        else:
            text = f"{leaves}({text})[{step.index}]"
    return text
