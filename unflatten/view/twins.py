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
        self._all: dict[Any, list[fx.Node]] = {}
        for node, phase, number in zip(draft.nodes, draft.phases, draft.metadata.numbers, strict=True):
            if number is not None and phase is Phase.FORWARD:
                self._all.setdefault(number, []).append(node)
        made = (node.op == "call_function" for found in self._all.values() for node in found)
        self.are_known = any(made)
        self._sorted = sorted(number for number in self._all if isinstance(number, int))

    def twins(self, node: fx.Node) -> tuple[Sequence[fx.Node], bool]:
        """The forward nodes that a backward node may belong to, and whether its number says so without doubt."""
        number = node.meta.get("seq_nr")
        flagged = node.meta.get("autograd_backward") or not self._flagged
        if not isinstance(number, int) or node.meta.get("is_gradient_acc") or not flagged:
            return (), False
        if self._nodes(number):
            return self._nodes(number), True
        at = bisect.bisect_left(self._sorted, number)
        above = next((found for each in self._sorted[at:] if (found := self._nodes(each))), [])
        below = next((found for each in reversed(self._sorted[:at]) if (found := self._nodes(each))), [])
        known = self._draft.scopes_of
        same = bool(above and below) and set(known(above)) == set(known(below))
        return above if same else (), same

    def _nodes(self, number: int) -> list[fx.Node]:
        """The nodes of a number that have an owner, and may have a gradient."""
        if number not in self._known:
            self._known[number] = [
                node
                for node in self._all.get(number, ())
                if self._draft.scope(node) is not None and _may_have_gradient(node)
            ]
        return self._known[number]


def _may_have_gradient(node: fx.Node) -> bool:
    """Whether a node gives numbers that have gradients; one that does not has the number of the node before."""
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) and value else value
    return not isinstance(first, torch.Tensor) or first.is_floating_point() or first.is_complex()
