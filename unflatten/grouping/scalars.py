"""Numbers that float: where a call can compute one, from what, and after what."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from unflatten.flat.values import FlatNode, Value
from unflatten.grouping.drafts import Draft, Item
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.shapes import is_size, size_expression, sizes


def parts(grouping: Grouping, scalar: FlatNode, known: Container[Value] = ()) -> list[FlatNode]:
    """A number and the numbers that it is computed from, without known ones: what one needs before it."""
    found: dict[FlatNode, None] = {}
    pending = [] if scalar in known else [scalar]
    while pending:
        inner = pending[-1]
        missing = [value for value in _numbers(grouping, inner) if value not in found and value not in known]
        if missing:
            pending.extend(reversed(missing))
        else:
            found[pending.pop()] = None
    return list(found)


def _numbers(grouping: Grouping, scalar: FlatNode) -> Iterator[FlatNode]:
    return (value for value in scalar.operands if isinstance(value, FlatNode) and grouping.floats(value))


def is_computable(grouping: Grouping, scalar: FlatNode, draft: Draft) -> bool:
    """Whether a draft has what a number is computed from, or is handed the number."""
    known: dict[Value, bool] = {}
    for inner in parts(grouping, scalar):
        if inner in draft.inputs or inner in draft.visible:
            known[inner] = True
        elif is_size(inner):
            known[inner] = size_source(grouping, inner, draft, draft.inputs) is not None
        else:
            known[inner] = all(known[value] for value in inner.operands)
    return known[scalar]


def size_source(
    grouping: Grouping, scalar: FlatNode, draft: Draft, inputs: Iterable[Value]
) -> tuple[Value, int] | None:
    """The tensor and dimension from which a draft reads a size: its own, or one of its inputs.

    Args:
        grouping: the program's drafts.
        scalar: the operator that reads the size.
        draft: where it is needed.
        inputs: the draft's inputs, in the order of preference.
    """
    tensor, dimension = grouping.resolve(scalar.operands[0], draft), scalar.args[1]
    if grouping.has(draft, tensor) and tensor not in draft.inputs:
        return tensor, dimension
    wanted = size_expression(scalar)
    if wanted is None:
        return (tensor, dimension) if tensor in draft.inputs else None
    for value in inputs:
        for size, at in sizes(value):
            if size == wanted:
                return value, at
    return None


def needs(grouping: Grouping, scalar: FlatNode, draft: Draft) -> Iterator[Item]:
    """What must run in a draft before it can compute a number."""
    pending, seen = [scalar], {scalar}
    while pending:
        inner = pending.pop()
        if inner in draft.inputs:
            continue
        if inner in draft.visible:
            yield draft.visible[inner]
        elif is_size(inner):
            found = size_source(grouping, inner, draft, draft.inputs)
            item = grouping.item_of(found[0], draft) if found else None
            if item is not None:
                yield item
        else:
            fresh = [value for value in inner.operands if isinstance(value, FlatNode) and value not in seen]
            seen.update(fresh)
            pending.extend(fresh)
