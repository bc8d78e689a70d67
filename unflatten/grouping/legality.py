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

from collections.abc import Iterable, Sequence

from unflatten.flat.operators import Order, order_of, written_arguments
from unflatten.flat.values import FlatInput, FlatNode
from unflatten.grouping.crossing import connect
from unflatten.grouping.drafts import Draft, Item, all_nodes, item_key
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.scheduling import Schedule

_ROUNDS = 64


def separate(grouping: Grouping) -> None:
    """Changes the drafts until every call can be separated. Linear unless something has to be undone."""
    for _ in range(_ROUNDS):
        connect(grouping)
        tangles = [(draft, tangle) for draft in grouping.drafts() for tangle in find_tangles(draft)]
        if not tangles:
            _settle(grouping)
            return
        if grouping.patient:
            grouping.patient = False
            continue
        for _, tangle in tangles:
            _undo(grouping, tangle)
    for draft, tangle in tangles:  # each round undoes one level, so this is for nesting deeper than that
        for item in tangle:
            if isinstance(item, Draft):
                _move(grouping, list(all_nodes(item)), draft)
    separate(grouping)


def _settle(grouping: Grouping) -> None:
    """Puts calls into an order that says nothing of positions: what is numbered later is numbered by it."""
    for draft in grouping.drafts():
        draft.children.sort(key=item_key)


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
    left: dict[Item, Iterable[Item]] = {item: later for item, later in after.items() if waiting.get(item)}
    if not left:
        return []
    import networkx as nx  # noqa: PLC0415 - only edited graphs need it

    graph: nx.DiGraph[Item] = nx.DiGraph(left)
    return [sorted(part, key=item_key) for part in nx.strongly_connected_components(graph) if len(part) > 1]


def _undo(grouping: Grouping, tangle: list[Item]) -> None:
    calls = sorted((item for item in tangle if isinstance(item, Draft)), key=item_key)
    operators = [item for item in tangle if isinstance(item, FlatNode)]
    if len(calls) == 1 and len(operators) <= sum(1 for _ in all_nodes(calls[0])):
        _move(grouping, operators, calls[0])
        return
    runs = Schedule(grouping, calls, operators).runs()
    for call in calls:
        pieces = [run.nodes for run in runs if run.call is call]
        if len(pieces) > 1:
            _cut(grouping, call, pieces)


def _move(grouping: Grouping, nodes: Sequence[FlatNode], target: Draft) -> None:
    for node in nodes:
        grouping.owner_of(node).nodes.remove(node)
        grouping.owner[node.index] = target
        target.nodes.append(node)


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
        if new.form is not None and not all(node in chosen for node in all_nodes(old)):
            new.form = None
            new.piece = number
    return copies[call]
