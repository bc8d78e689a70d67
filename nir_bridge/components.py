"""Strongly connected components and distances, without recursion."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

Neighbours = Sequence[Sequence[int]]


def components(members: Iterable[int], successors: Neighbours | Mapping[int, Sequence[int]]) -> list[list[int]]:
    """The strongly connected components of a graph, sources first, each in increasing order (Tarjan's algorithm).

    Args:
        members: the nodes; others are passed over.
        successors: of each node. The result depends on the order of `members` and `successors` alone.

    Example:
        >>> components(range(4), [[1], [2], [1], []])
        [[3], [0], [1, 2]]
    """
    inside = set(members) if not isinstance(members, range) else members
    search = _Search(inside, successors)
    for node in members:
        if node not in search.index:
            search.run(node)
    return search.found[::-1]


class _Search:
    def __init__(self, inside: set[int] | range, successors: Neighbours | Mapping[int, Sequence[int]]) -> None:
        self.inside = inside
        self.successors = successors
        self.index: dict[int, int] = {}
        self.low: dict[int, int] = {}
        self.open: list[int] = []
        self.is_open: set[int] = set()
        self.found: list[list[int]] = []

    def run(self, start: int) -> None:
        self.enter(start)
        calls = [(start, iter(self.successors[start]))]
        while calls:
            node, rest = calls[-1]
            for other in rest:
                if other not in self.inside:
                    continue
                if other not in self.index:
                    self.enter(other)
                    calls.append((other, iter(self.successors[other])))
                    break
                if other in self.is_open:
                    self.low[node] = min(self.low[node], self.index[other])
            else:
                calls.pop()
                self.leave(node, calls[-1][0] if calls else None)

    def enter(self, node: int) -> None:
        self.index[node] = self.low[node] = len(self.index)
        self.open.append(node)
        self.is_open.add(node)

    def leave(self, node: int, caller: int | None) -> None:
        if caller is not None:
            self.low[caller] = min(self.low[caller], self.low[node])
        if self.low[node] != self.index[node]:
            return
        found: list[int] = []
        while not found or found[-1] != node:
            found.append(self.open.pop())
            self.is_open.discard(found[-1])
        self.found.append(sorted(found))


def distances(starts: Iterable[int], neighbours: Neighbours) -> dict[int, int]:
    """How many edges away from the nearest start each node is; nodes out of reach are left out."""
    found = dict.fromkeys(starts, 0)
    pending = deque(found)
    while pending:
        node = pending.popleft()
        for other in neighbours[node]:
            if other not in found:
                found[other] = found[node] + 1
                pending.append(other)
    return found
