"""Which groups of nodes become modules that are called, and what goes in and out of each.

A group is a nested graph, or the nodes whose names share a prefix up to a dot. It can be called in one go when no path
leaves it and comes back within a step. A group that can't is only a container: its nodes are called from around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nir_bridge.components import components
from nir_bridge.flattening import FlatGraph, Path
from nir_bridge.plan import Term


@dataclass(frozen=True, slots=True)
class Input:
    """What a group is given: the sum of some terms, for a node inside; a port is an Input node of the group's own."""

    node: int
    terms: tuple[Term, ...]
    is_port: bool


@dataclass(slots=True)
class Group:
    """A group that is called.

    Attributes:
        path: where it is.
        units: its nodes, and the groups that it calls, in the order in which they run. Groups are given by path.
        inputs: what it is given.
        outputs: the nodes inside whose values it returns.
        feedback: the nodes inside whose last value it keeps.
    """

    path: Path
    units: list[int | Path] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    feedback: list[int] = field(default_factory=list)


class Grouping:
    """The groups of a flat graph.

    Attributes:
        groups: by path, those that are called.
        containers: the paths of those that aren't.
    """

    def __init__(self, flat: FlatGraph, paths: Sequence[Path], terms: Sequence[Sequence[Term]]) -> None:
        self.flat = flat
        self.paths = paths
        self.terms = terms
        self.containers: set[Path] = set()
        self.groups: dict[Path, Group] = {}
        self.members: dict[Path, list[int]] = {}
        self.edges: dict[Path, list[tuple[int, int]]] = {}
        self._collect()
        self._order()
        for path in self.groups:
            self._cross(path)
        self._leave()

    def _collect(self) -> None:
        """The nodes inside each group, and the undelayed edges for which it is the innermost around both ends."""
        self.members[()] = []
        for scope in self.flat.scopes:
            self.members.setdefault(scope, [])
        for node, path in enumerate(self.paths):
            for size in range(len(path)):
                self.members.setdefault(path[:size], []).append(node)
        for target, terms in enumerate(self.terms):
            for term in terms:
                if not term.delayed:
                    self.edges.setdefault(self.paths[target][: term.level], []).append((term.source, target))

    def unit(self, around: Path, node: int) -> int | Path:
        """The node, or the group that it is in, as a part of a group around it."""
        path = self.paths[node]
        for size in range(len(around) + 1, len(path)):
            if path[:size] not in self.containers:
                return path[:size]
        return node

    def _order(self) -> None:
        """Orders the units of a group and of all groups inside it, making containers of those that can't be called."""
        pending: list[Path] = [()]
        while pending:
            path = pending.pop()
            units = self._units(path)
            self.groups[path] = Group(path, units)
            pending += [unit for unit in units if isinstance(unit, tuple)]

    def _units(self, path: Path) -> list[int | Path]:
        """The units of a group, in order, after groups among them that can't be called have become containers."""
        edges = list(self.edges.get(path, ()))
        while True:
            units = list(dict.fromkeys(self.unit(path, node) for node in self.members[path]))
            units += self._empty(path, units)
            number = {unit: at for at, unit in enumerate(units)}
            following: list[list[int]] = [[] for _ in units]
            for source, target in edges:
                following[number[self.unit(path, source)]].append(number[self.unit(path, target)])
            found = components(range(len(units)), following)
            broken = [units[at] for loop in found for at in loop if len(loop) > 1 or at in following[at]]
            opened = [unit for unit in broken if isinstance(unit, tuple)]
            if not opened:
                return [units[loop[0]] for loop in found]
            self.containers.update(opened)
            edges += [edge for unit in opened for edge in self.edges.get(unit, ())]

    def _empty(self, path: Path, units: list[int | Path]) -> list[int | Path]:
        """Nested graphs without any node."""
        return [
            scope
            for scope in self.flat.scopes
            if not self.members[scope] and scope[:-1] == path and scope and scope not in units
        ]

    def _cross(self, path: Path) -> None:
        """What goes into a group."""
        group, size = self.groups[path], len(path)
        scope = self.flat.scopes.get(path)
        forced = scope.inputs if scope is not None else ()
        given: dict[int, tuple[Term, ...]] = {}
        for node in self.members[path]:
            outside = tuple(term for term in self.terms[node] if term.level < size)
            if outside:
                given[node] = outside
        seen: set[tuple[Term, ...]] = set()
        for node in (*forced, *sorted(given.keys() - set(forced))):
            terms = given.get(node, ())
            if node in forced or terms not in seen:
                seen.update([] if node in forced else [terms])
                group.inputs.append(Input(node, terms, node in forced))

    def _leave(self) -> None:
        """What goes out of each group, and what each keeps for the next step."""
        left: dict[Path, set[int]] = {path: set() for path in self.groups}
        kept: dict[Path, set[int]] = {path: set() for path in self.groups}
        for target, terms in enumerate(self.terms):
            for term in terms:
                path = self.paths[term.source]
                around = self.paths[target][: term.level]
                for size in range(term.level + 1, len(path)):
                    left.get(path[:size], set()).add(term.source)
                if term.delayed:
                    kept[self._called(around)].add(term.source)
        for path, group in self.groups.items():
            scope = self.flat.scopes.get(path)
            group.outputs = list(scope.outputs) if scope is not None else sorted(left[path])
            group.feedback = sorted(kept[path])

    def _called(self, path: Path) -> Path:
        """The innermost group around another that is called."""
        while path in self.containers:
            path = path[:-1]
        return path


def common(first: Path, second: Path) -> Path:
    """The innermost group around two nodes."""
    size = 0
    limit = min(len(first), len(second)) - 1
    while size < limit and first[size] == second[size]:
        size += 1
    return first[:size]
