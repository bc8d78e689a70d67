"""Tensors in nested containers, with where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from nir_bridge.state import State

Place = tuple[str, ...]
"""Keys and indices on the way to a tensor."""


def items(value: Any) -> list[tuple[str, Any]] | None:
    """What a container holds, by key; None where it is no container."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None:
        return list(zip(names, value, strict=True))
    if isinstance(value, tuple | list):
        return [(str(at), item) for at, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [(item.name, getattr(value, item.name)) for item in fields(value)]
    return None


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Everything that is no container, with its place."""
    held = items(value)
    if held is None:
        yield place, value
        return
    for key, item in held:
        yield from leaves(item, (*place, key))


def tensors(value: Any) -> Iterator[tuple[Place, Tensor]]:
    """The tensors, with their places."""
    return ((place, item) for place, item in leaves(value) if isinstance(item, Tensor))


def mapped(value: Any, function: Callable[[Place, Any], Any], place: Place = ()) -> Any:
    """The same containers with other leaves."""
    held = items(value)
    if held is None:
        return function(place, value)
    made = [mapped(item, function, (*place, key)) for key, item in held]
    if isinstance(value, State):
        return State(**dict(zip(value, made, strict=True)))
    if isinstance(value, Mapping):
        return type(value)(zip(value, made, strict=True))  # type: ignore[call-arg]
    if hasattr(value, "_fields"):
        return type(value)(*made)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **dict(zip((key for key, _ in held), made, strict=True)))
    return type(value)(made)
