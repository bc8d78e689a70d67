"""Forward and backward nodes that autograd gave the same sequence number."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from unflatten.view.owners import Draft
from unflatten.view.values import Phase


class Numbers:
    """Forward nodes by sequence number.

    A forward node has the number of the autograd node that was made last. The operator that made number n is thus
    the one with the smallest number that is not below n.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._flagged = any(draft.metadata.flags)
        self._known: dict[int, list[fx.Node]] = {}
        self._all: dict[Any, list[int]] = {}
        for at, (phase, number) in enumerate(zip(draft.phases, draft.metadata.numbers, strict=True)):
            if number is not None and phase is Phase.FORWARD:
                self._all.setdefault(number, []).append(at)
        ops = draft.metadata.ops
        self.are_known = any(ops[at] == "call_function" for found in self._all.values() for at in found)
        self._sorted = sorted(number for number in self._all if isinstance(number, int))

    def twins(self, at: int) -> tuple[Sequence[fx.Node], bool]:
        """The forward nodes that the backward node at a place may belong to, and whether its number says so surely."""
        metadata = self._draft.metadata
        number = metadata.numbers[at]
        if not isinstance(number, int) or metadata.sums[at] or not (metadata.flags[at] or not self._flagged):
            return (), False
        if self._nodes(number):
            return self._nodes(number), True
        place = bisect.bisect_left(self._sorted, number)
        above = next((found for each in self._sorted[place:] if (found := self._nodes(each))), [])
        below = next((found for each in reversed(self._sorted[:place]) if (found := self._nodes(each))), [])
        known = self._draft.scopes_of
        same = bool(above and below) and set(known(above)) == set(known(below))
        return above if same else (), same

    def _nodes(self, number: int) -> list[fx.Node]:
        """The nodes of a number that have an owner, and may have a gradient."""
        found = self._known.get(number)
        if found is None:
            draft = self._draft
            values = draft.metadata.values
            found = self._known[number] = [
                draft.nodes[at]
                for at in self._all.get(number, ())
                if draft.scopes[at] is not None and _may_have_gradient(values[at])
            ]
        return found


def _may_have_gradient(value: Any) -> bool:
    """Whether what a node gives has gradients; a node of which that is not so has the number of the node before."""
    first = value[0] if isinstance(value, tuple | list) and value else value
    return not isinstance(first, torch.Tensor) or first.is_floating_point() or first.is_complex()
