"""Where a body uses its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unflatten.code.body import Body, Local
from unflatten.code.nesting import Made, Rebuilt


def locals_of(value: Any) -> Iterator[int]:
    """The locals in nested arguments, in the order in which Python evaluates them."""
    if isinstance(value, Local):
        yield value.index
    elif isinstance(value, tuple | list):
        for item in value:
            yield from locals_of(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from locals_of(item)
    elif isinstance(value, Rebuilt):
        yield from locals_of(value.leaves)
    elif isinstance(value, Made):
        yield from locals_of(value.fields)


def _used(body: Body) -> Iterator[tuple[int, int]]:
    for at, step in enumerate(body.steps):
        for local in locals_of((step.args, step.kwargs)):
            yield at, local
    for local in locals_of(body.result):
        yield len(body.steps), local


def last_uses(body: Body) -> dict[int, int]:
    """The last step that uses each local; the result counts as one step more."""
    return {local: at for at, local in _used(body)}


def use_counts(body: Body) -> dict[int, int]:
    """How often each local is used."""
    counts: dict[int, int] = {}
    for _, local in _used(body):
        counts[local] = counts.get(local, 0) + 1
    return counts
