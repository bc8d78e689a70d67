"""The bodies of a module, each with the calls that run it, and calls of bodies that are not settled yet."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from torch import nn

from unflatten.code.body import Body, Invoke
from unflatten.code.nesting import Access
from unflatten.grouping.drafts import Draft
from unflatten.leaves.registry import dotted

SEQUENTIAL = dotted(nn.Sequential)


@dataclass(eq=False, slots=True)
class Variant:
    """One body of one module, with the calls that run it.

    Attributes:
        body: the body; its result is only complete after `finish`.
        index: its number among the module's bodies.
        drafts: the calls.
        key: equal for bodies that compute the same in the same way, of whatever module; after `finish`.
        outputs: for calls without a known form, the numbers of the values that it returns.
        recorded: whether the calls of the program were recorded.
    """

    body: Body
    index: int
    key: Hashable
    drafts: list[Draft] = field(default_factory=list)
    outputs: dict[int, None] = field(default_factory=dict)
    recorded: bool = False


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Pending(Invoke):
    """A call whose callee's result is not settled yet."""

    variant: Variant
    values: tuple[tuple[int, int], ...]

    def settled(self, pick: int | None, outs: tuple[tuple[int, Access], ...], flat: int) -> Invoke:
        """The call as it is made in the end."""
        guessed = is_guessed(self.variant)
        return Invoke(self.module, pick, self.args, self.kwargs, outs, flat, self.modes, guessed)


def is_guessed(variant: Variant) -> bool:
    """Whether the program leaves open how a body is called, so that nothing else can stand in its place.

    Where nothing recorded calls, that is a matter of the order of several values. Where something did, and yet says
    nothing of this one, or less than crosses its boundary, anything may be missing.
    """
    form = variant.drafts[0].form
    if form is not None:
        return variant.body.surplus or len(variant.body.parameters) > len(form.names)
    if len(variant.body.parameters) > 1 or len(variant.outputs) > 1:
        return True
    return variant.recorded and not _takes_one(variant)


def _takes_one(variant: Variant) -> bool:
    """Whether calls take and give one value by their class: an `nn.Sequential` of modules whose calls are known."""
    if not all(draft.call and draft.call.type_name == SEQUENTIAL for draft in variant.drafts):
        return False
    calls = [step for step in variant.body.steps if isinstance(step, Invoke)]
    return not any(is_guessed(step.variant) if isinstance(step, Pending) else step.guessed for step in calls)
