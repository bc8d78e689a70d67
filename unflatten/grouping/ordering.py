"""The canonical order of a call's items, and of what it takes and gives.

The order comes from structure and names alone: what an item needs stands before it, needs in the order of
the arguments, starting from what nothing else in the call uses. Two valid orders of one graph, and two
calls of one module, give the same order.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from unflatten.flat.operators import Order, order_of, written_arguments
from unflatten.flat.values import FlatInput, FlatNode, Value
from unflatten.grouping import scalars
from unflatten.grouping.drafts import Draft, Item, item_key
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.naming import natural
from unflatten.reaching import reached


@dataclass(frozen=True, eq=False, slots=True)
class Arrangement:
    """The order of one call.

    Attributes:
        items: its operators and the calls inside it, in the order in which they run.
        inputs: what it takes from outside, in the order of first use, or as its form has it.
        outputs: what is used of it outside, in the order of computation.
    """

    items: tuple[Item, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[FlatNode, ...]


def arrange(grouping: Grouping) -> dict[Draft, Arrangement]:
    """Orders every call, inner ones first, in time linear in items and edges but for a heap's logarithm."""
    done: dict[Draft, Arrangement] = {}
    drafts = list(grouping.drafts())
    calls = Counter(draft.path for draft in drafts)
    for draft in reversed(drafts):
        own: list[Item] = [*draft.nodes, *draft.children]
        needs = {item: _needs(grouping, draft, item, done) for item in own}
        items = _schedule(needs, _roots(grouping, draft, needs, calls[draft.path] == 1))
        inputs = _inputs(grouping, draft, items, done)
        done[draft] = Arrangement(items, inputs, _outputs(draft, items, done))
    for draft in grouping.idle:
        given = draft.form.values() if draft.form else ()
        done[draft] = Arrangement((), tuple(dict.fromkeys(given)), ())
    return done


def _needs(grouping: Grouping, draft: Draft, item: Item, done: Mapping[Draft, Arrangement]) -> list[Item]:
    """What has to run before an item: for its effects first, then for its arguments, in their order."""
    found: dict[Item, None] = dict.fromkeys(sorted(draft.effects.get(item, ()), key=item_key))
    for value in _taken(grouping, draft, item, done):
        if isinstance(value, FlatNode) and grouping.floats(value):
            found.update(dict.fromkeys(scalars.needs(grouping, value, draft)))
        else:
            source = grouping.item_of(value, draft)
            if source is not None:
                found[source] = None
    found.pop(item, None)
    return list(found)


def _taken(grouping: Grouping, draft: Draft, item: Item, done: Mapping[Draft, Arrangement]) -> Iterable[Value]:
    if isinstance(item, Draft):
        return done[item].inputs
    return (grouping.operand(item, value, draft) for value in item.operands)


def _roots(
    grouping: Grouping, draft: Draft, needs: Mapping[Item, list[Item]], alone: bool
) -> tuple[list[Item], list[Item]]:
    """What results come from, and what they do without: calls and what only acts, then what nothing uses.

    The latter is left out of written code, so it must not decide the order of anything else.
    """
    used = {need for found in needs.values() for need in found}
    asked = _asked(grouping, draft, alone)
    free = sorted((item for item in needs if item not in used and _gives(item, asked)), key=item_key)
    first = [item for value in _results(grouping, draft) if (item := grouping.item_of(value, draft)) is not None]
    if draft.parent is not None:
        offered = set(free)
        first = [item for item in first if item in offered]
    free = list(dict.fromkeys((*first, *free)))
    known = reached(free, needs.__getitem__)
    rest = sorted((item for item in needs if item not in known), key=item_key)
    return free, sorted(rest, key=_is_idle)


def _asked(grouping: Grouping, draft: Draft, alone: bool) -> Collection[Value] | None:
    """What a call returns or others use of it; None for everything, where that isn't known.

    What others use doesn't tell where a module is called again: its calls are alike, whatever is used of each.
    """
    if draft.form is not None:
        return {*_results(grouping, draft), *draft.outputs}
    return draft.outputs if alone else None


def _results(grouping: Grouping, draft: Draft) -> list[Value]:
    given = draft.form.results if draft.form else ()
    return [grouping.resolve(value, draft) for value in given if isinstance(value, FlatNode | FlatInput)]


def _gives(item: Item, asked: Collection[Value] | None) -> bool:
    """Whether an item computes something that is asked for."""
    if _only_acts(item):
        return False
    return asked is None or any(node in asked for node in (item.outputs if isinstance(item, Draft) else (item,)))


def _is_idle(item: Item) -> bool:
    """Whether written code does without an item: it computes what is not asked for, or capturing added it."""
    return isinstance(item, FlatNode) and (order_of(item) is Order.NOTE or not _only_acts(item))


def _only_acts(item: Item) -> bool:
    if isinstance(item, Draft):
        return not item.outputs
    return order_of(item) is not Order.FREE or bool(written_arguments(item))


def _schedule(needs: Mapping[Item, list[Item]], roots: tuple[list[Item], list[Item]]) -> tuple[Item, ...]:
    """Depth first from the roots; what only acts runs as soon as it can."""
    rank: dict[Item, tuple[int, int]] = {}
    for late, starts in enumerate(roots):
        for start in starts:
            _visit(start, needs, rank, bool(late))
    waiting = {item: len(found) for item, found in needs.items()}
    after: dict[Item, list[Item]] = {}
    for item, found in needs.items():
        for need in found:
            after.setdefault(need, []).append(item)
    number = {item: at for at, item in enumerate(rank)}
    ready = [(rank[item], number[item], item) for item, count in waiting.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        item = heapq.heappop(ready)[2]
        order.append(item)
        for later in after.get(item, ()):
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (rank[later], number[later], later))
    return tuple(order)


def _visit(start: Item, needs: Mapping[Item, list[Item]], rank: dict[Item, tuple[int, int]], late: bool) -> None:
    """Ranks an item and what it needs, in post-order; late ones right after the last of their needs."""
    if start in rank:
        return
    seen = {start}
    stack = [(start, iter(needs[start]))]
    while stack:
        item, pending = stack[-1]
        for need in pending:
            if need not in rank and need not in seen:
                seen.add(need)
                stack.append((need, iter(needs[need])))
                break
        else:
            stack.pop()
            if late:
                last = max((rank[need] for need in needs[item] if need in rank), default=(-1, 0))
                rank[item] = (last[0], last[1] + 1)
            else:
                rank[item] = (len(rank), 0)


def _inputs(
    grouping: Grouping, draft: Draft, items: Iterable[Item], done: Mapping[Draft, Arrangement]
) -> tuple[Value, ...]:
    if not draft.inputs:
        return ()
    found: dict[Value, None] = {}
    if draft.form is not None:
        found.update(dict.fromkeys(grouping.resolve(leaf, draft) for leaf in draft.form.values()))
    for item in items:
        for value in _taken(grouping, draft, item, done):
            if value in draft.inputs:
                found[value] = None
            elif isinstance(value, FlatNode) and grouping.floats(value):
                found.update(dict.fromkeys(part for part in scalars.parts(grouping, value) if part in draft.inputs))
    rest = sorted((value for value in draft.inputs if value not in found), key=lambda value: natural(value.name))
    return tuple(value for value in (*found, *rest) if value in draft.inputs)


def _outputs(draft: Draft, items: Iterable[Item], done: Mapping[Draft, Arrangement]) -> tuple[FlatNode, ...]:
    if not draft.outputs:
        return ()
    found: dict[FlatNode, None] = {}
    for item in items:
        offered = done[item].outputs if isinstance(item, Draft) else (item,)
        found.update((value, None) for value in offered if value in draft.outputs)
    rest = sorted((value for value in draft.outputs if value not in found), key=lambda value: natural(value.name))
    return (*found, *rest)
