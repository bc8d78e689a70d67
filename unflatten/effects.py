"""The order that effects impose.

Three things order operators besides the values that they hand on: writes and reads of the same memory,
through whatever alias or view; operators that draw random numbers or act on the world; assertions. Each
becomes an edge, so that everything later only has to respect edges, never positions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unflatten import _torch
from unflatten.flat.operators import (
    Order,
    aliased,
    facts_of,
    order_of,
    returned_operand,
    values_in,
    written_arguments,
)
from unflatten.flat.values import FlatInput, FlatNode, FlatProgram, Source, Value
from unflatten.groups import Groups
from unflatten.recording.record import is_handed_through

StorageKey = Callable[[FlatInput], Hashable | None]
"""Tells which inputs share memory: equal keys do, None never does."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What has to happen before what.

    Attributes:
        before: for each operator, by index, the operators that must run earlier for their effects.
        same: for the result of an in-place operator, the value that it is: `x.add_(1)` is `x`;
            likewise for what a recorded call returned although it had been given it.
        unchanged: for the result of an operator that had nothing to do, the operand that it is.
        written: the inputs whose memory the program writes.
    """

    before: Mapping[int, tuple[int, ...]]
    same: Mapping[FlatNode, Value]
    unchanged: Mapping[FlatNode, Value]
    written: frozenset[FlatInput]


def find_effects(program: FlatProgram, storage_of: StorageKey) -> Effects:
    """Finds the edges that effects impose, in linear time.

    Only the relative order of operators whose effects conflict is used, so two valid orders of one graph
    give the same edges.
    """
    before: dict[int, list[int]] = {}
    _chain(program.sequence, before)
    _close_brackets(program.sequence, before)
    writers = {node.index: written for node in program.nodes if (written := list(values_in(written_arguments(node))))}
    unchanged = {node: value for node in program.nodes if (value := returned_operand(node)) is not None}
    same = _same_objects(program.nodes)
    if not writers:
        return Effects({at: tuple(found) for at, found in before.items()}, same, unchanged, frozenset())
    memory = _memory(program, storage_of)
    _order_accesses(program, writers, memory, before)
    touched = {memory.find(value) for values in writers.values() for value in values}
    return Effects(
        before={at: tuple(dict.fromkeys(found)) for at, found in before.items()},
        same=same,
        unchanged=unchanged,
        written=frozenset(value for value in program.inputs if memory.find(value) in touched),
    )


def _chain(nodes: Sequence[FlatNode], before: dict[int, list[int]]) -> None:
    """Each effect after the previous one of its kind.

    Higher-order operators may not run inside of a functorch transform that they were not in, so they count
    as effects where there are any.
    """
    transforms = any(node.target in _torch.BRACKET_OPEN for node in nodes)
    last: dict[Order, int] = {}
    for node in nodes:
        order = order_of(node)
        if transforms and isinstance(node.target, _torch.HigherOrderOperator):
            order = Order.SEQUENCE
        if order not in (Order.FREE, Order.NOTE):
            if order in last:
                before.setdefault(node.index, []).append(last[order])
            last[order] = node.index


def _close_brackets(nodes: Iterable[FlatNode], before: dict[int, list[int]]) -> None:
    """Functorch transforms close after everything that computes with what they opened."""
    opened: list[int] = []
    inside: dict[Value, int] = {}
    members: dict[int, list[int]] = {}
    parent: dict[int, int | None] = {}
    for node in nodes:
        if node.target in _torch.BRACKET_OPEN:
            parent[node.index] = opened[-1] if opened else None
            opened.append(node.index)
        elif node.target in _torch.BRACKET_CLOSE and opened:
            before.setdefault(node.index, []).extend(members.get(opened.pop(), ()))
        elif parent:
            bracket: int | None = max((inside[value] for value in node.operands if value in inside), default=None)
            if node.target in _torch.BRACKET_ENTER and opened:
                bracket = opened[-1]
            if bracket is not None:
                members.setdefault(bracket, []).append(node.index)
                bracket = parent[bracket] if node.target in _torch.BRACKET_LEAVE else bracket
            if bracket is not None:
                inside[node] = bracket


def _memory(program: FlatProgram, storage_of: StorageKey) -> Groups:
    """Groups of values that may share memory."""
    memory = Groups()
    for value in program.inputs:
        key = storage_of(value) if value.source is not Source.USER else None
        if key is not None:
            memory.join(value, ("storage", key))
    for node in program.nodes:
        for operand in aliased(node):
            memory.join(node, program.replaced.get((node, operand), operand))
    return memory


def _order_accesses(
    program: FlatProgram, writers: Mapping[int, list[Value]], memory: Groups, before: dict[int, list[int]]
) -> None:
    """Reads after the write that they see and before the next one; writes in their order.

    Taking a view is a read: a view taken before a write has another gradient than one taken after it.
    """
    touched = {memory.find(value) for values in writers.values() for value in values}
    last_write: dict[Any, int] = {}
    readers: dict[Any, list[int]] = {}
    for node in program.sequence:
        used = (program.replaced.get((node, value), value) for value in node.operands)
        accessed = dict.fromkeys(root for value in used if (root := memory.find(value)) in touched)
        written = dict.fromkeys(memory.find(value) for value in writers.get(node.index, ()))
        for root in accessed | written:
            if root in last_write:
                before.setdefault(node.index, []).append(last_write[root])
            if root in written:
                before.setdefault(node.index, []).extend(readers.pop(root, ()))
                last_write[root] = node.index
            else:
                readers.setdefault(root, []).append(node.index)


def _same_objects(nodes: Iterable[FlatNode]) -> dict[FlatNode, Value]:
    same: dict[FlatNode, Value] = {}
    for node in nodes:
        handed_through = is_handed_through(node.meta)
        at = 0 if handed_through else facts_of(node.target).returns
        value = node.args[at] if 0 <= at < len(node.args) else None
        if isinstance(value, FlatInput):
            same[node] = value
        elif isinstance(value, FlatNode):
            # What a call handed through is the call's to give, so it is not looked through.
            same[node] = value if handed_through or is_handed_through(value.meta) else same.get(value, value)
    return same
