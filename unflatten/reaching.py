"""What can be reached from where, along any edges."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reached(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """Some values, and all that follow from them: a set, in the order in which they are met.

    Linear in the edges. Any number of edges may lie between two values: nothing recurses.

    Args:
        starts: where to begin.
        following: the values that come right after one.

    Example:
        >>> list(reached([12], lambda number: [number // 2, number // 3] if number else []))
        [12, 4, 1, 0, 2, 6, 3]
    """
    found: dict[T, None] = {}
    pending = list(starts)
    while pending:
        value = pending.pop()
        if value not in found:
            found[value] = None
            pending.extend(following(value))
    return found
