"""Conversions that give back what they were given, because it is of the wanted type already.

Who captures code cannot tell the result of such a conversion from its argument, and uses the result from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from unflatten import _torch
from unflatten.code.body import Apply, Body, Invoke, Local
from unflatten.flat.values import FlatNode
from unflatten.source.tidying import mapped


def idle(body: Body, origins: Sequence[Any]) -> frozenset[int]:
    """The results of conversions that change nothing.

    Args:
        body: the body.
        origins: where its steps came from, which tells types; empty where that was lost.
    """
    return frozenset(
        step.out
        for step, origin in zip(body.steps, origins, strict=False)
        if isinstance(step, Apply) and isinstance(origin, FlatNode) and _is_idle(step, origin)
    )


def _is_idle(step: Apply, origin: FlatNode) -> bool:
    if not isinstance(step.target, _torch.OpOverload) or step.target._schema.name != "aten::to":
        return False
    if any(value is True for value in (*step.args, *step.kwargs.values())):  # a copy is asked for
        return False
    given, made = getattr(origin.args[0], "meta", {}).get("val"), origin.meta.get("val")
    if not isinstance(given, torch.Tensor) or not isinstance(made, torch.Tensor):
        return False
    return (given.dtype, given.device, given.layout) == (made.dtype, made.device, made.layout)


def followed(body: Body, outs: Collection[int]) -> Body:
    """A body that goes on with the results of some conversions, in place of what these were given.

    Args:
        body: the body, in its final order.
        outs: the results.
    """
    same: dict[Local, Local] = {}

    def latest(leaf: Any) -> Any:
        return same.get(leaf, leaf) if isinstance(leaf, Local) else leaf

    steps: list[Apply | Invoke] = []
    for step in body.steps:
        new = replace(step, args=mapped(step.args, latest), kwargs=mapped(step.kwargs, latest))
        steps.append(new)
        if isinstance(new, Apply) and new.out in outs and isinstance(new.args[0], Local):
            out, given = Local(new.out), new.args[0]
            same.update({leaf: out for leaf, now in same.items() if now == given})
            same[given] = out
    return replace(body, steps=tuple(steps), result=mapped(body.result, latest))
