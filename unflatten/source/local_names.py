"""What variables are called in written code.

Capturing calls a value after the operator that made it. A person calls it after what it is for, the parameter that it
becomes, or after where it came from. Names depend on nothing but what the body does, so that they come out the same
when written code is captured again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unflatten import _torch
from unflatten.code.body import Apply, Body, Invoke, Local, Step
from unflatten.code.nesting import Made, Rebuilt
from unflatten.code.uses import locals_of, use_counts
from unflatten.source.text import identifier

_TELLING = frozenset({"query", "key", "value", "attn_mask", "indices", "grid", "repeats"})
"""The arguments of operators that say what they are given."""
_SAME = frozenset({
    "_to_copy", "clone", "contiguous", "detach", "expand", "expand_as", "flatten", "moveaxis", "movedim", "narrow",
    "permute", "reshape", "select", "slice", "squeeze", "swapaxes", "t", "to", "transpose", "tril", "triu", "type_as",
    "unflatten", "unsqueeze", "view", "view_as",
})  # fmt: skip
"""Operators that leave a value what it is, in another shape or type."""
_SUMS = frozenset({
    "add", "sub", "mul", "div", "neg", "rsub", "bitwise_and", "bitwise_or", "logical_and", "logical_or", "masked_fill",
    "where",
})  # fmt: skip
"""Operators whose result may go by the name of what it becomes a part of."""


def operator_name(step: Apply | Invoke) -> str:
    """The operator's own name, without those of its variants; empty for calls of modules."""
    if isinstance(step, Invoke):
        return ""
    if isinstance(step.target, _torch.OpOverload):
        return str(step.target._schema.name).rpartition("::")[2].rstrip("_")
    return str(getattr(step.target, "__name__", "")).rstrip("_")


def named(body: Body, parameters: Sequence[tuple[str, ...]]) -> Body:
    """A body with names for its values.

    Args:
        body: the body.
        parameters: for each step the parameters of what is called, where these say something.
    """
    naming = _Naming(body, list(body.names))
    for step, names in zip(body.steps, parameters, strict=True):
        naming.ask(step, names)
    naming.ask_result(body.result)
    for step in body.steps:
        naming.give(step)
    for step in reversed(body.steps):
        naming.hand_back(step)
    return replace(body, names=tuple(naming.names))


@dataclass(slots=True)
class _Naming:
    """The names so far.

    Attributes:
        body: the body.
        names: what each value is called.
        asked: the name that a consumer has for a value.
        listed: those among these that a list of modules hands on.
        telling: the values whose names say more than which operator made them.
    """

    body: Body
    names: list[str]
    asked: dict[int, str] = field(default_factory=dict)
    listed: set[int] = field(default_factory=set)
    telling: set[int] = field(default_factory=set)

    def ask(self, step: Apply | Invoke, parameters: Sequence[str]) -> None:
        """Notes what a step calls its arguments."""
        if isinstance(step, Apply):
            parameters = [name if name in _TELLING else "" for name in _schema_names(step)]
        given = [*zip(parameters, step.args, strict=False), *step.kwargs.items()]
        for name, value in given:
            if isinstance(value, Local) and name and (name in _TELLING or isinstance(step, Invoke)):
                self.asked.setdefault(value.index, identifier(name))
                if isinstance(step, Invoke) and parameters and step.module.steps[-1:] == (Step("0", "item"),):
                    self.listed.add(value.index)

    def ask_result(self, result: Any) -> None:
        """Notes the keys and fields under which values are returned."""
        for name, value in _fields(result):
            if isinstance(value, Local):
                self.asked.setdefault(value.index, identifier(name))

    def give(self, step: Apply | Invoke) -> None:
        """Names what a step makes."""
        if isinstance(step, Invoke):
            speaks = bool(step.module.steps) and step.module.steps[-1].how in ("attr", "key") and len(step.outs) == 1
            for local, _ in step.outs:
                if local in self.asked and (not speaks or local in self.listed):
                    self.names[local] = self.asked[local]
                self.telling.add(local)
            return
        if self.names[step.out] == "lift_fresh_copy":
            self.names[step.out] = operator_name(step)
        if step.out in self.asked:
            self.names[step.out] = self.asked[step.out]
            self.telling.add(step.out)
        elif operator_name(step) in _SAME or _is_with_constant(step):
            first = step.args[0] if step.args else None
            if isinstance(first, Local) and first.index in self.telling | self.made:
                self.names[step.out] = self.names[first.index]
                if first.index in self.telling:
                    self.telling.add(step.out)

    def hand_back(self, step: Apply | Invoke) -> None:
        """Names the first operand of a sum as the sum, where it is nothing by itself."""
        if isinstance(step, Invoke) or step.out not in self.telling or not step.args:
            return
        first = step.args[0]
        if operator_name(step) not in _SUMS | _SAME or not isinstance(first, Local) or first.index in self.telling:
            return
        if first.index in self.made and use_counts(self.body)[first.index] == 1:
            self.names[first.index] = self.names[step.out]
            self.telling.add(first.index)

    @property
    def made(self) -> set[int]:
        """What operators make."""
        return {step.out for step in self.body.steps if isinstance(step, Apply)}


def _schema_names(step: Apply) -> Iterator[str]:
    if isinstance(step.target, _torch.OpOverload):
        yield from (str(argument.name) for argument in step.target._schema.arguments)


def _is_with_constant(step: Apply) -> bool:
    """Whether an operator combines a value with numbers alone."""
    return operator_name(step) in _SUMS and len(list(locals_of((step.args, step.kwargs)))) == 1


def _fields(result: Any) -> Iterator[tuple[str, Any]]:
    items: Mapping[Any, Any] = {}
    if isinstance(result, Made):
        items = result.fields
    elif isinstance(result, Mapping):
        items = result
    elif isinstance(result, Rebuilt) and isinstance(result.spec.context, list):
        keys = result.spec.context
        items = dict(zip(keys, result.leaves, strict=True)) if len(keys) == len(result.leaves) else {}
    yield from ((name, value) for name, value in items.items() if isinstance(name, str))
