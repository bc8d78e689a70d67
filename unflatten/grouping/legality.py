"""Making every call separable: cutting out what a graph pass has grown together.

A call can be run as one unit if contracting it leaves no cycle. It is not enough that each call is convex:
two of them can wait for each other. So the graph of a call's items, its own operators and the calls inside
it, has to be acyclic at every level. Untouched programs always satisfy that. Where a pass (common
subexpressions, hoisting, inserted operators) has broken it, each tangle of items is undone by the first of
these that applies:

1. *Moved in*: the tangle has one call and operators around it: they join the call.
2. *Moved out*: a run of pure operators that needs nothing of its call's own leaves it.
3. *Cut*: the call falls into as few pieces as the greedy schedule finds, each run in its place.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from unflatten.flat.operators import Order, order_of, written_arguments
from unflatten.flat.values import FlatInput, FlatNode, Value
from unflatten.grouping.crossing import connect
from unflatten.grouping.drafts import Draft, Item
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.naming import natural

_ROUNDS = 64


def separate(grouping: Grouping) -> None:
    """Changes the drafts until every call can be separated. Linear unless something has to be undone."""
    for _ in range(_ROUNDS):
        connect(grouping)
        tangles = [(draft, tangle) for draft in grouping.drafts() for tangle in find_tangles(draft)]
        if not tangles:
            return
        for draft, tangle in tangles:
            _undo(grouping, draft, tangle)
    for draft, tangle in tangles:  # each round undoes one level, so this is for nesting deeper than that
        for item in tangle:
            if isinstance(item, Draft):
                _move(grouping, list(_all_nodes(item)), draft)
    separate(grouping)


def find_tangles(draft: Draft) -> list[list[Item]]:
    """The sets of items that wait for each other; empty where contraction is legal."""
    after: dict[Item, list[Item]] = {}
    waiting: dict[Item, int] = {}
    for earlier, later in draft.edges:
        after.setdefault(earlier, []).append(later)
        waiting[later] = waiting.get(later, 0) + 1
    ready = [item for item in after if not waiting.get(item)]
    while ready:
        for later in after.pop(ready.pop(), ()):
            waiting[later] -= 1
            if not waiting[later]:
                ready.append(later)
    left = {item: after[item] for item in after if waiting.get(item)}
    return [found for found in _components(left) if len(found) > 1] if left else []


def _components(after: dict[Item, list[Item]]) -> Iterator[list[Item]]:
    """Tarjan's strongly connected components (SIAM J. Comput. 1972), without recursion."""
    number: dict[Item, int] = {}
    low: dict[Item, int] = {}
    path: list[Item] = []
    on_path: set[Item] = set()
    for start in after:
        if start in number:
            continue
        work: list[tuple[Item, Iterator[Item]]] = [(start, iter(after.get(start, ())))]
        number[start] = low[start] = len(number)
        path.append(start)
        on_path.add(start)
        while work:
            item, followers = work[-1]
            for follower in followers:
                if follower not in number:
                    number[follower] = low[follower] = len(number)
                    path.append(follower)
                    on_path.add(follower)
                    work.append((follower, iter(after.get(follower, ()))))
                    break
                if follower in on_path:
                    low[item] = min(low[item], number[follower])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[item])
                if low[item] == number[item]:
                    found = [path.pop()]
                    while found[-1] is not item:
                        found.append(path.pop())
                    on_path.difference_update(found)
                    yield found


def item_key(item: Item) -> tuple[int, str, int, int]:
    """A sort key for items that says nothing of positions."""
    if isinstance(item, FlatNode):
        return 0, *natural(item.name), 0
    return 1, str(item.path), item.call.index if item.call else 0, item.piece


def _undo(grouping: Grouping, draft: Draft, tangle: list[Item]) -> None:
    calls = sorted((item for item in tangle if isinstance(item, Draft)), key=item_key)
    operators = [item for item in tangle if isinstance(item, FlatNode)]
    if len(calls) == 1 and len(operators) <= sum(1 for _ in _all_nodes(calls[0])):
        _move(grouping, operators, calls[0])
        return
    runs = _schedule(grouping, draft, calls, operators)
    for call in calls:
        pieces = [run.nodes for run in runs if run.call is call]
        if len(pieces) > 1:
            _cut(grouping, call, pieces)


def _move(grouping: Grouping, nodes: Sequence[FlatNode], target: Draft) -> None:
    for node in nodes:
        grouping.owner_of(node).nodes.remove(node)
        grouping.owner[node.index] = target
        target.nodes.append(node)


def _all_nodes(draft: Draft) -> Iterator[FlatNode]:
    stack = [draft]
    while stack:
        inner = stack.pop()
        yield from inner.nodes
        stack.extend(inner.children)


@dataclass(slots=True)
class _Run:
    """Operators of one call that can run one after another."""

    call: Draft
    nodes: list[FlatNode] = field(default_factory=list)


def _schedule(grouping: Grouping, draft: Draft, calls: list[Draft], operators: list[FlatNode]) -> list[_Run]:
    """Runs a tangle's operators in an order that stays in one call for as long as it can."""
    home: dict[FlatNode, Draft | None] = dict.fromkeys(operators)
    home.update((node, call) for call in calls for node in _all_nodes(call))
    after: dict[FlatNode, list[FlatNode]] = {}
    waiting: dict[FlatNode, int] = dict.fromkeys(home, 0)
    outside: dict[Draft, int] = dict.fromkeys(calls, 0)
    for node in home:
        for earlier in dict.fromkeys(_needs(grouping, node)):
            if earlier in home:
                after.setdefault(earlier, []).append(node)
                waiting[node] += 1
                call = home[node]
                if call is not None and home[earlier] is not call:
                    outside[call] += 1
    ready: dict[Draft | None, list[tuple[tuple[str, int], int, FlatNode]]] = {call: [] for call in (None, *calls)}

    def release(node: FlatNode) -> None:
        heapq.heappush(ready[home[node]], (natural(node.name), node.index, node))

    def run(node: FlatNode) -> None:
        for later in after.get(node, ()):
            waiting[later] -= 1
            call = home[later]
            if call is not None and home[node] is not call:
                outside[call] -= 1
            if not waiting[later]:
                release(later)

    for node, count in waiting.items():
        if not count:
            release(node)
    runs: list[_Run] = []
    while any(ready.values()):
        while ready[None]:
            run(heapq.heappop(ready[None])[2])
        open_calls = [call for call in calls if ready[call]]
        if open_calls:
            # A call that waits for nothing outside any more can finish in one go.
            call = min(open_calls, key=lambda call: (outside[call] > 0, item_key(call)))
            runs.append(_Run(call))
            while ready[call]:
                node = heapq.heappop(ready[call])[2]
                runs[-1].nodes.append(node)
                run(node)
    return runs


def _needs(grouping: Grouping, node: FlatNode) -> Iterator[FlatNode]:
    """The operators that must run before one, through numbers that float."""
    pending: list[Value] = list(node.operands)
    while pending:
        value = pending.pop()
        if grouping.floats(value) and isinstance(value, FlatNode):
            pending.extend(value.operands)
        elif isinstance(value, FlatNode) and (node, value) not in grouping.program.replaced:
            yield value
    for earlier in grouping.effects.before.get(node.index, ()):
        yield grouping.program.nodes[earlier]


def _cut(grouping: Grouping, call: Draft, pieces: list[list[FlatNode]]) -> None:
    """Moves out the pieces that can go, and makes a draft of each other one."""
    outer = call.parent or grouping.root
    movable = [piece for piece in pieces if _can_leave(grouping, call, piece)]
    if len(movable) == len(pieces):
        movable.remove(max(movable, key=len))
    for piece in movable:
        _move(grouping, piece, outer)
    kept = [piece for piece in pieces if not any(piece is moved for moved in movable)]
    if len(kept) > 1:
        place = outer.children.index(call)
        outer.children[place : place + 1] = [
            _piece(grouping, call, number, nodes, outer) for number, nodes in enumerate(kept)
        ]


def _can_leave(grouping: Grouping, call: Draft, piece: Iterable[FlatNode]) -> bool:
    return all(
        node in grouping.program.restored
        or (
            grouping.owner[node.index] is call
            and order_of(node) is Order.FREE
            and not written_arguments(node)
            and not any(isinstance(value, FlatInput) and _held(grouping, call, value) for value in node.operands)
        )
        for node in piece
    )


def _held(grouping: Grouping, call: Draft, value: FlatInput) -> bool:
    return value in grouping.state.names and grouping.owns(call, value)


def _piece(grouping: Grouping, call: Draft, number: int, nodes: list[FlatNode], outer: Draft) -> Draft:
    """A draft of some of a call's operators, with those calls inside it that they lie in."""
    why = f"operators of {call.call} had to run before and after others that depend on it"
    copies = {call: Draft(call.call, outer, call.depth, piece=number, cut=why)}

    def copy_of(draft: Draft) -> Draft:
        chain = []
        while draft not in copies:
            chain.append(draft)
            draft = draft.parent or grouping.root
        for inner in reversed(chain):
            above = copies[inner.parent or grouping.root]
            copies[inner] = Draft(inner.call, above, inner.depth, piece=inner.piece, form=inner.form, cut=inner.cut)
            above.children.append(copies[inner])
        return copies[chain[0]] if chain else copies[draft]

    chosen = set(nodes)
    for node in nodes:
        copy = copy_of(grouping.owner_of(node))
        copy.nodes.append(node)
        grouping.owner[node.index] = copy
    for old, new in list(copies.items()):
        if new.form is not None and not all(node in chosen for node in _all_nodes(old)):
            new.form = None
            new.piece = number
    return copies[call]
