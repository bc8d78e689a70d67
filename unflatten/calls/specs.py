"""What a call was captured with, leaf by leaf, so that a later call can be compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from unflatten import _torch
from unflatten.flat.values import FlatInput, FlatNode
from unflatten.removed import REMOVED


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor; its sizes are integers, or symbolic expressions where they may vary."""

    shape: tuple[Any, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class NumberSpec:
    """A number that may vary, and what it is symbolically."""

    expression: Any

    def __str__(self) -> str:
        return str(self.expression)


@dataclass(frozen=True, slots=True)
class ConstantSpec:
    """A value that the capture took for granted."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class AnySpec:
    """Something that nothing is known of."""

    def __str__(self) -> str:
        return "?"


@dataclass(frozen=True, slots=True)
class GoneSpec(AnySpec):
    """Something that a pass removed from the program."""

    def __str__(self) -> str:
        return "removed"


Spec = TensorSpec | NumberSpec | ConstantSpec | AnySpec


def spec_of(leaf: Any) -> Spec:
    """The spec of an argument: a value of the graph, or a constant."""
    if leaf is REMOVED:
        return GoneSpec()
    if not isinstance(leaf, FlatNode | FlatInput):
        return ConstantSpec(leaf)
    return described(leaf.meta["val"]) if "val" in leaf.meta else AnySpec()


def described(value: Any) -> Spec:
    """The spec of a node, from what its metadata says that it gives."""
    if isinstance(value, torch.Tensor):
        return TensorSpec(tuple(map(_size, value.shape)), value.dtype)
    expression = _torch.symbolic_expression(value)
    if expression is not None:
        return NumberSpec(expression)
    if isinstance(value, int | float | str | bool | None):
        return ConstantSpec(value)
    return AnySpec()


def _size(size: int | torch.SymInt) -> Any:
    expression = _torch.symbolic_expression(size)
    if expression is None:
        return int(size)
    return int(expression) if expression.is_Integer else expression


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of a symbol; None where it has no end."""

    lower: int | None
    upper: int | None


def bounds_of(ranges: Mapping[Any, Any]) -> dict[str, Bounds]:
    """The ranges of a program's symbols.

    A lower end of 2 is what export assumes of any size, not something that a program relies on.
    """
    found = {}
    for symbol, range_ in ranges.items():
        lower = int(range_.lower) if _is_finite(range_.lower) and range_.lower > 2 else None
        upper = int(range_.upper) if _is_finite(range_.upper) else None
        if lower is not None or upper is not None:
            found[str(symbol)] = Bounds(lower, upper)
    return found


def _is_finite(value: Any) -> bool:
    return bool(getattr(value, "is_Integer", False) or isinstance(value, int))
