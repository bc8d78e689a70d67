"""An order for operators of several calls that stays in one call for as long as it can."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from unflatten.flat.values import FlatNode, Value
from unflatten.grouping.drafts import Draft, all_nodes, item_key
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.naming import natural
from unflatten.reaching import reached


@dataclass(slots=True)
class Run:
    """Operators of one call that can run one after another."""

    call: Draft
    nodes: list[FlatNode] = field(default_factory=list)


class Schedule:
    """Kahn's algorithm over operators, with one queue for each call and one for those of none.

    Args:
        grouping: the calls as grouped so far.
        calls: those whose operators are to run.
        operators: others, which run as soon as they can.
    """

    def __init__(self, grouping: Grouping, calls: list[Draft], operators: Iterable[FlatNode]) -> None:
        self.calls = calls
        self.home: dict[FlatNode, Draft | None] = dict.fromkeys(operators)
        self.home.update((node, call) for call in calls for node in all_nodes(call))
        self.after: dict[FlatNode, list[FlatNode]] = {}
        self.waiting: dict[FlatNode, int] = dict.fromkeys(self.home, 0)
        self.outside: dict[Draft, int] = dict.fromkeys(calls, 0)
        """How many edges into a call from other ones have not been run yet."""
        self.ready: dict[Draft | None, list[tuple[tuple[str, int, str], int, FlatNode]]] = {
            call: [] for call in (None, *calls)
        }
        for node in self.home:
            for earlier in dict.fromkeys(_needs(grouping, node)):
                if earlier in self.home:
                    self._wait(earlier, node)
        for node, count in self.waiting.items():
            if not count:
                self._release(node)

    def runs(self) -> list[Run]:
        """The calls' operators in an order in which they can run. Can be asked for once."""
        runs: list[Run] = []
        while any(self.ready.values()):
            self._drain(None)
            open_calls = [call for call in self.calls if self.ready[call]]
            if open_calls:
                # A call that waits for nothing outside any more can finish in one go.
                call = min(open_calls, key=lambda call: (self.outside[call] > 0, item_key(call)))
                runs.append(Run(call, self._drain(call)))
        return runs

    def _wait(self, earlier: FlatNode, later: FlatNode) -> None:
        self.after.setdefault(earlier, []).append(later)
        self.waiting[later] += 1
        call = self.home[later]
        if call is not None and self.home[earlier] is not call:
            self.outside[call] += 1

    def _release(self, node: FlatNode) -> None:
        heapq.heappush(self.ready[self.home[node]], (natural(node.name), node.index, node))

    def _drain(self, call: Draft | None) -> list[FlatNode]:
        """Runs all that can run in a call without leaving it."""
        done = []
        queue = self.ready[call]
        while queue:
            node = heapq.heappop(queue)[2]
            done.append(node)
            for later in self.after.get(node, ()):
                self._arrive(later, call)
        return done

    def _arrive(self, later: FlatNode, origin: Draft | None) -> None:
        self.waiting[later] -= 1
        call = self.home[later]
        if call is not None and origin is not call:
            self.outside[call] -= 1
        if not self.waiting[later]:
            self._release(later)


def _needs(grouping: Grouping, node: FlatNode) -> Iterator[FlatNode]:
    """The operators that must run before one, through numbers that float."""
    taken = reached(node.operands, lambda value: _parts(grouping, value))
    for value in taken:
        replaced = (node, value) in grouping.program.replaced
        if isinstance(value, FlatNode) and not grouping.floats(value) and not replaced:
            yield value
    for earlier in grouping.effects.before.get(node.index, ()):
        yield grouping.program.nodes[earlier]


def _parts(grouping: Grouping, value: Value) -> Iterable[Value]:
    return value.operands if isinstance(value, FlatNode) and grouping.floats(value) else ()
