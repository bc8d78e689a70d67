"""The order of a body's steps: each right before what needs it, so that it does not depend on how it was captured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from unflatten import _torch
from unflatten.code.body import Apply, Body, Held, Invoke, Local
from unflatten.code.uses import locals_of
from unflatten.source.tidying import ASSERT, device_of, is_pure, mapped

Step = Apply | Invoke


def ordered(body: Body, has_effects: Callable[[Invoke], bool], discrete: Collection[int] = ()) -> Body:
    """A body whose steps are in the order in which they are needed.

    What has effects keeps its order among the like, and nothing crosses a write. Calls keep their order, and so does
    what uses the same value: that is the order in which gradients are added up.

    Args:
        body: the body.
        has_effects: whether the order of a call among others of the kind matters.
        discrete: the values that no gradient flows through.
    """
    return replace(body, steps=tuple(_Order(body, has_effects, discrete).run()))


def is_ordered(step: Apply) -> bool:
    """Whether the order of an operator among others of the kind matters: random numbers, checks, writes.

    Checks that capturing adds don't count, since they are left out.
    Of functions that are no operators nothing is known: some begin or end what those between them are part of.
    """
    if is_pure(step.target) or step.target is ASSERT:
        return False
    if not isinstance(step.target, _torch.OpOverload):
        return True
    return not step.target._schema.returns or writes(step) or _torch.has_effects(step.target) or _is_random(step)


def _is_random(step: Apply) -> bool:
    return any(str(tag).endswith("nondeterministic_seeded") for tag in step.target.tags)  # type: ignore[attr-defined]


def writes(step: Step) -> bool:
    """Whether an operator changes one of its arguments."""
    return isinstance(step, Apply) and isinstance(step.target, _torch.OpOverload) and step.target._schema.is_mutable


def leaf_has_effects(module: nn.Module) -> bool:
    """Whether a module of torch.nn draws random numbers or writes its buffers."""
    if not module.training:
        return False
    random = any(getattr(module, name, 0) for name in ("p", "dropout")) or isinstance(module, nn.RReLU)
    return random or bool(getattr(module, "track_running_stats", False))


def _kept_order(body: Body, discrete: Collection[int]) -> Iterator[tuple[int, int]]:
    """Steps that come after another one whatever they need, with that one: calls, and users of one value."""
    last: dict[Local | Held | None, int] = {}
    devices = {step.out for step in body.steps if isinstance(step, Apply) and step.target is device_of}
    aside = {*discrete, *devices}
    for at, step in enumerate(body.steps):
        if isinstance(step, Apply) and step.target in (device_of, operator.getitem):
            continue  # the items of a tuple make up one gradient
        used: list[Any] = []
        mapped((step.args, step.kwargs), used.append)
        keys = dict.fromkeys(
            leaf for leaf in used if isinstance(leaf, Held) or (isinstance(leaf, Local) and leaf.index not in aside)
        )
        for key in (*keys, *([None] if isinstance(step, Invoke) else [])):
            if key in last:
                yield at, last[key]
            last[key] = at


class _Order:
    def __init__(self, body: Body, has_effects: Callable[[Invoke], bool], discrete: Collection[int]) -> None:
        self.steps = body.steps
        self.result = body.result
        self.maker: dict[int, int] = {}
        for at, step in enumerate(body.steps):
            for local in [step.out] if isinstance(step, Apply) else [out[0] for out in step.outs]:
                self.maker[local] = at
        self.needs = [self.makers((step.args, step.kwargs)) for step in body.steps]
        for at, before in _kept_order(body, discrete):
            self.needs[at].append(before)
        self.anchors = [
            at
            for at, step in enumerate(body.steps)
            if (is_ordered(step) if isinstance(step, Apply) else has_effects(step) or not step.outs)
        ]
        self.done: set[int] = set()
        self.order: list[Step] = []

    def makers(self, used: Any) -> list[int]:
        """The steps that make what is used, in the order of use."""
        return list(dict.fromkeys(self.maker[local] for local in locals_of(used) if local in self.maker))

    def run(self) -> list[Step]:
        """The steps in order."""
        for number, at in enumerate(self.anchors):
            if writes(self.steps[at]):
                for later in self.anchors[number:]:
                    self.need(self.needs[later], at)
                self.need(self.makers(self.result), at)
                self.need(range(at), at)
            self.need([at], len(self.steps))
        self.need(self.makers(self.result), len(self.steps))
        self.need(range(len(self.steps)), len(self.steps))
        return self.order

    def need(self, wanted: Sequence[int], before: int) -> None:
        """Has steps done, and what they need before them; only those that come before some step."""
        stack = [(at, False) for at in reversed(wanted)]
        while stack:
            at, ready = stack.pop()
            if at in self.done:
                continue
            if ready:
                self.done.add(at)
                if at < before:
                    self.order.append(self.steps[at])
                continue
            if at >= before:
                stack.extend((need, False) for need in reversed(self.needs[at]) if need < before)
                continue
            stack.append((at, True))
            stack.extend((need, False) for need in reversed(self.needs[at]))
