"""What crosses the boundary of each call, and what must run before what inside it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

from unflatten.flat.operators import Order, facts_of, order_of, values_in, written_arguments
from unflatten.flat.values import FlatInput, FlatNode, Source, Value
from unflatten.grouping import scalars
from unflatten.grouping.drafts import Draft, Item, all_nodes
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.shapes import is_size
from unflatten.recording.record import is_handed_through
from unflatten.removed import REMOVED
from unflatten.signatures import Form


def connect(grouping: Grouping) -> None:
    """Finds what crosses each boundary, anew. Linear in the number of crossings.

    A call that hands out what it computes and, beside that, a value that it was given, is taken not to return
    the latter: others have it from where it was computed.
    """
    _Connector(grouping).connect()
    unsure = [draft for draft in grouping.drafts() if _is_unsure(grouping, draft)]
    for draft in unsure:
        draft.form = None
    unused = {draft: node for draft in grouping.drafts() if (node := _unused_result(draft)) is not None}
    grouping.unused.update(unused)
    if unsure or unused:
        _Connector(grouping).connect()
    found = {(draft, value) for draft in grouping.drafts() if draft.parent for value in _given(grouping, draft)}
    if not found <= grouping.handed_back:
        grouping.handed_back |= found
        _Connector(grouping).connect()


def _is_unsure(grouping: Grouping, draft: Draft) -> bool:
    """Whether a part of a call's form is gone, and it takes or gives what may be that part."""
    form = draft.form
    if form is None or draft.parent is None:
        return False
    if any(leaf is REMOVED for leaf in form.arguments):
        declared = {grouping.resolve(leaf, draft) for leaf in form.values()}
        if any(value not in declared and not grouping.floats(value) for value in draft.inputs):
            return True
    if any(leaf is REMOVED for leaf in form.results):
        returned = {leaf for leaf in form.results if isinstance(leaf, FlatNode)}
        returned |= {leaf for result in returned if isinstance(leaf := grouping.resolve(result, draft), FlatNode)}
        return any(value not in returned for value in draft.outputs)
    return False


def _unused_result(draft: Draft) -> FlatNode | None:
    """What a call returns whose result nothing uses: its only value that is not used inside of it either."""
    if draft.parent is None or draft.form is not None or draft.outputs:
        return None
    nodes = list(all_nodes(draft))
    used = {operand for node in nodes for operand in node.operands}
    last = [node for node in nodes if node not in used and not facts_of(node.target).writes]
    return last[0] if len(last) == 1 and order_of(last[0]) is Order.FREE else None


def _given(grouping: Grouping, draft: Draft) -> list[FlatNode]:
    """The outputs of a draft that are what it was given, or other names for what it is known to return.

    Where nothing is known and all of them are what it was given, it returns them.
    """
    form = draft.form
    if form is None and len(draft.outputs) < 2:
        return []
    results = [leaf for leaf in form.results if isinstance(leaf, FlatNode)] if form else []
    declared: set[Value] = {grouping.resolve(leaf, draft) for leaf in results}.union(results)
    given = [value for value in draft.outputs if value not in declared and _is_given(grouping, draft, value, declared)]
    return given if form or len(given) < len(draft.outputs) else []


def _is_given(grouping: Grouping, draft: Draft, value: FlatNode, declared: Container[Value]) -> bool:
    same, unchanged = grouping.effects.same, grouping.effects.unchanged
    operand: Value | None = value
    while isinstance(operand, FlatNode) and operand not in declared and grouping.within(operand, draft):
        operand = same.get(operand) or unchanged.get(operand)
    return operand is not None


class _Connector:
    """Brings every value to every draft that uses it."""

    def __init__(self, grouping: Grouping) -> None:
        self.grouping = grouping
        self.program = grouping.program
        self.root = grouping.root

    @cached_property
    def writers(self) -> dict[Value, list[FlatNode]]:
        """The operators that write each value."""
        found: dict[Value, list[FlatNode]] = {}
        for node in self.program.nodes:
            for value in values_in(written_arguments(node)):
                found.setdefault(value, []).append(node)
        return found

    def connect(self) -> None:
        for draft in self.grouping.drafts():
            draft.forget()
        self.declare_all()
        for node in self.program.nodes:
            draft_or_none = self.grouping.owner[node.index]
            if draft_or_none is not None:
                self.operator(node, draft_or_none)
        for value in self.root.form.results if self.root.form else ():
            if isinstance(value, FlatNode | FlatInput):
                self.use(self.grouping.resolve(value, self.root), self.root, None)
        for draft in reversed(list(self.grouping.drafts())):
            for scalar in list(draft.scalars):
                self.provide(scalar, draft)
        self.order_scalars()

    def declare_all(self) -> None:
        for draft in list(self.grouping.drafts()):
            if draft is not self.root and draft.form is not None:
                self.declare(draft, draft.form)
        for draft, node in self.grouping.unused.items():
            if self.grouping.within(node, draft):
                self.offer(node, draft)

    def operator(self, node: FlatNode, draft: Draft) -> None:
        for value in node.operands:
            self.use(self.grouping.operand(node, value, draft), draft, node)
        for earlier in self.grouping.effects.before.get(node.index, ()):
            self.order(self.program.nodes[earlier], node)

    def declare(self, draft: Draft, form: Form) -> None:
        """A known form asks for its arguments and offers its results, used or not."""
        resolve = self.grouping.resolve
        form = draft.form = self.seen_from_outside(draft, form)
        leaves = [resolve(leaf, draft) for leaf in form.values()]
        results = [resolve(leaf, draft) for leaf in form.results if isinstance(leaf, FlatNode | FlatInput)]
        if any(isinstance(leaf, FlatNode) and self.grouping.within(leaf, draft) for leaf in leaves):
            draft.form = None  # a pass moved what was computed outside into the call
            return
        if self.grouping.patient:
            self.order_writes(draft, form)
        for leaf in leaves:
            if leaf not in draft.inputs:
                draft.inputs[leaf] = None
                self.use(leaf, draft.parent or self.root, draft)
        for leaf in results:
            if isinstance(leaf, FlatNode) and self.grouping.within(leaf, draft):
                self.offer(leaf, draft)
            else:
                self.use(leaf, draft, None)

    def order_writes(self, draft: Draft, form: Form) -> None:
        """A call comes after the writes to what it is given, and before the next ones, also where it does not look."""
        for leaf in form.values():
            if isinstance(leaf, FlatNode) and leaf in self.grouping.effects.same:
                self.order(leaf, draft)
            for writer in self.writers.get(leaf, ()):
                if not self.grouping.within(writer, draft):
                    self.order(draft, writer)

    def seen_from_outside(self, draft: Draft, form: Form) -> Form:
        """The form with, for arguments that are now made inside of the call, what they are made of.

        Removing mutation takes views of a tensor anew after each write, where they are used next.
        """
        within, same = self.grouping.within, self.grouping.effects.same

        def outside(leaf: Any) -> Any:
            while isinstance(leaf, FlatNode) and is_handed_through(leaf.meta) and within(leaf, draft):
                leaf = same[leaf]
            return leaf

        return replace(form, arguments=tuple(map(outside, form.arguments)))

    def offer(self, node: FlatNode, draft: Draft) -> None:
        inner: Draft | None = self.grouping.owner_of(node)
        while inner is not None and inner.depth >= draft.depth:
            inner.outputs[node] = None
            if inner.parent is not None:
                inner.parent.visible[node] = inner
            inner = inner.parent

    def use(self, value: Value, draft: Draft, by: Item | None) -> None:
        """Brings a value to a draft that uses it."""
        if isinstance(value, FlatInput):
            self.use_input(value, draft)
        elif self.grouping.floats(value):
            draft.scalars[value] = None
        else:
            self.bring(value, self.grouping.owner_of(value), draft, by)

    def use_input(self, value: FlatInput, draft: Draft) -> None:
        held = value.source is not Source.USER
        if value.source is Source.TOKEN or value in draft.inputs:
            return
        while draft.parent is not None and not (held and self.grouping.owns(draft, value)):
            if value in draft.inputs:
                return
            draft.inputs[value] = None
            draft = draft.parent

    def bring(self, value: FlatNode, holder: Draft, draft: Draft, by: Item | None) -> None:
        """Hands a value out of the calls around its operator and into those around its user."""
        source: Item = value
        a, b = holder, draft
        while a is not b:
            if a.depth > b.depth:
                a.outputs[value] = None
                source, a = a, a.parent or self.root
                a.visible[value] = source
            else:
                if value in b.inputs:
                    return
                b.inputs[value] = None
                by, b = b, b.parent or self.root
        if by is not None and by is not source:
            a.edges[source, by] = None

    def order(self, earlier: Item, later: Item) -> None:
        """Lifts an edge between effects to the innermost call around both."""
        a, b = self.holder(earlier), self.holder(later)
        if a is None or b is None:
            return
        source: Item = earlier
        target: Item = later
        while a is not b:
            if a.depth >= b.depth:
                source, a = a, a.parent or self.root
            if b.depth > a.depth:
                target, b = b, b.parent or self.root
        if source is not target:
            a.edges[source, target] = None
            if source not in a.effects.setdefault(target, []):
                a.effects[target].append(source)

    def holder(self, item: Item) -> Draft | None:
        """The call that an item belongs to; None for a number that floats, and for the whole program."""
        return self.grouping.owner[item.index] if isinstance(item, FlatNode) else item.parent

    def provide(self, scalar: FlatNode, draft: Draft) -> None:
        """Makes sure that a draft can compute a number, or is handed it."""
        while not scalars.is_computable(self.grouping, scalar, draft):
            tensor = scalar.operands[0] if is_size(scalar) else None
            holder = self.grouping.owner[tensor.index] if isinstance(tensor, FlatNode) else None
            if holder is not None and draft.encloses(holder):
                self.bring(scalar, holder, draft, None)  # only a call inside has the tensor
                return
            if draft.parent is None:
                for value in scalar.operands:
                    if isinstance(value, FlatNode) and self.grouping.floats(value):
                        self.provide(value, draft)
                return
            draft.inputs[scalar] = None
            draft = draft.parent
            draft.scalars[scalar] = None

    def order_scalars(self) -> None:
        for node in self.program.nodes:
            draft = self.grouping.owner[node.index]
            if draft is not None and draft.scalars:
                self.need(node, node.operands, draft)
        for draft in self.grouping.drafts():
            if draft.parent is not None and draft.parent.scalars:
                self.need(draft, draft.inputs, draft.parent)

    def need(self, item: Item, values: Iterable[Value], draft: Draft) -> None:
        for value in values:
            if isinstance(value, FlatNode) and self.grouping.floats(value):
                for earlier in scalars.needs(self.grouping, value, draft):
                    draft.edges[earlier, item] = None
