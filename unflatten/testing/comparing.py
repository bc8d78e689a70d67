"""In what two nested values differ, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from unflatten import _torch


@dataclass(frozen=True)
class Difference:
    """One thing in which two things differ.

    Attributes:
        where: what differs, as code: `output['y'][0]`.
        expected: the one side, as text.
        given: the other side.
        path: the path of the module that it happens in, where that is known.
        node: the node or line that it happens at, likewise.
    """

    where: str
    expected: str
    given: str
    path: str = ""
    node: str = ""

    def __str__(self) -> str:
        place = f" (module {self.path!r}" if self.path else ""
        place += f"{', ' if place else ' ('}node {self.node}" if self.node else ""
        return (
            f"{self.where}{place + ')' if place else ''}\n      expected {self.expected}\n      given    {self.given}"
        )


def differences(expected: Any, given: Any, where: str = "output") -> list[Difference]:
    """Everything in which two nested values differ: structure, types, dtypes, shapes, and every bit; NaNs are alike.

    Args:
        expected: the one side: tensors, numbers and the like, in any pytree.
        given: the other side.
        where: what the values are called in what is returned.

    Example:
        >>> differences({"a": torch.ones(2)}, {"a": torch.tensor([1.0, 2.0])})[0].where
        "output['a']"
        >>> differences([1, float("nan")], [1, float("nan")])
        []
    """
    left, right = _torch.leaves_with_paths(expected), _torch.leaves_with_paths(given)
    if _torch.structure(expected) != _torch.structure(given):
        return [Difference(f"how {where} nests", _nesting(left, expected), _nesting(right, given))]
    found = []
    for (path, want), (_, have) in zip(left, right, strict=True):
        found += list(_leaf_differences(want, have, f"{where}{path}"))
    return found


def _nesting(leaves: list[tuple[str, Any]], value: Any) -> str:
    return f"{type(value).__name__} with {[path or 'itself' for path, _ in leaves]}"


def _leaf_differences(want: Any, have: Any, where: str) -> Iterator[Difference]:
    if isinstance(want, torch.Tensor) and isinstance(have, torch.Tensor):
        if (want.dtype, want.shape) != (have.dtype, have.shape):
            yield Difference(where, _kind(want), _kind(have))
        elif not torch.equal(_without_nans(want), _without_nans(have)):
            yield Difference(where, _shown(want, have), _shown(have, want))
    elif isinstance(want, float) and isinstance(have, float) and math.isnan(want) and math.isnan(have):
        return
    elif type(want) is type(have) and hasattr(want, "__dict__") and not isinstance(want, type):
        yield from differences(vars(want), vars(have), where)
    elif type(want) is not type(have) or want != have:
        yield Difference(where, repr(want), repr(have))


def _without_nans(value: torch.Tensor) -> torch.Tensor:
    """A tensor that equals itself; types of one byte, which can't be compared as they are, as larger ones."""
    value = value.detach()
    small = value.dtype.is_floating_point and value.dtype.itemsize == 1
    return (value.float() if small else value).nan_to_num(7.5)


def _kind(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _shown(value: torch.Tensor, other: torch.Tensor) -> str:
    """A small tensor whole, a large one by its first element that differs."""
    if value.numel() <= 16:
        return " ".join(str(value.detach()).split())
    at = tuple((value != other).nonzero()[0].tolist())
    return f"{value[at].item()} at {list(at)} of {_kind(value)}"
