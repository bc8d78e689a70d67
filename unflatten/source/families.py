"""Which modules become one class although they do different things: those whose original class is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from unflatten.paths import ModulePath
from unflatten.reaching import reached


def merged(orders: Iterable[Sequence[str]]) -> tuple[str, ...] | None:
    """One order that several keep to; None where they contradict each other.

    >>> merged([["a", "c"], ["a", "b", "c"], ["b", "d"]])
    ('a', 'b', 'c', 'd')
    >>> merged([["a", "b"], ["b", "a"]])
    """
    after: dict[str, set[str]] = {}
    before: dict[str, int] = {}
    for order in orders:
        for at, name in enumerate(order):
            before.setdefault(name, 0)
            after.setdefault(name, set())
            if at and name not in after[order[at - 1]]:
                after[order[at - 1]].add(name)
                before[name] += 1
    done: list[str] = []
    left = dict(before)
    while left:
        free = next((name for name, count in left.items() if not count), None)
        if free is None:
            return None
        del left[free]
        done.append(free)
        for name in after[free]:
            left[name] -= 1
    return tuple(done)


def recursive(names: Mapping[ModulePath, str]) -> set[str]:
    """The classes that hold themselves, with or without others in between.

    Args:
        names: the class of each module that gets one.
    """
    inside: dict[str, set[str]] = {name: set() for name in names.values()}
    for path, name in names.items():
        above = path
        while above.names:
            above = above.parent
            if above in names:
                inside[names[above]].add(name)
                break
    return {name for name in inside if name in reached(inside[name], inside.__getitem__)}
