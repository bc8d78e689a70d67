"""Objects that are no pytree, taken apart into their fields and put together again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

_GENERATED = "<string>"
"""Where a dataclass's own `__init__` says that it was written."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The names of an object's fields, in order. The context of its node in a tree spec."""

    names: tuple[str, ...]


def fields_of(value: object) -> Mapping[str, Any] | None:
    """What a plain Python object holds, None for one that may hold more than its fields tell."""
    kind = type(value)
    if kind.__new__ is not object.__new__ or kind.__module__ == "builtins" or isinstance(value, nn.Module):
        return None
    found = dict(getattr(value, "__dict__", {}))
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found if all(isinstance(name, str) for name in found) else None


def make(kind: type, /, **values: Any) -> Any:
    """An object of a class with these fields; its constructor runs only where that can do nothing else."""
    if _is_constructible(kind, values):
        return kind(**values)
    made: Any = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _is_constructible(kind: type, values: Mapping[str, Any]) -> bool:
    """Whether a class is a dataclass whose own `__init__` just stores these fields."""
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None or not parameters.init or hasattr(kind, "__post_init__"):
        return False
    names = {field.name for field in dataclasses.fields(kind) if field.init}
    code = getattr(kind.__dict__.get("__init__"), "__code__", None)
    return names == set(values) and code is not None and code.co_filename == _GENERATED
