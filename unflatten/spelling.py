"""How operators are spelled in code: `x + y`, `torch.softmax(x, -1)`, `x.view(2, 3)`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from unflatten import _torch

ATOM = 10
"""The precedence of names, calls and subscripts: what never needs parentheses."""


@dataclass(frozen=True, slots=True)
class Text:
    """An expression, and how tightly it binds (Python's order of precedence)."""

    text: str
    level: int = ATOM

    def at(self, level: int) -> str:
        """The text as an operand of something that binds as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"


class Speller(Protocol):
    """What `spell` needs of the code generator."""

    def show(self, value: Any) -> Text:
        """An argument as Python."""

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The inside of a call's parentheses."""

    def object(self, value: Any, base: str) -> str:
        """The name of an object that the code refers to."""


_INFIX: dict[Any, tuple[str, int]] = {
    operator.add: ("+", 5),
    operator.sub: ("-", 5),
    operator.mul: ("*", 6),
    operator.truediv: ("/", 6),
    operator.floordiv: ("//", 6),
    operator.mod: ("%", 6),
    operator.lt: ("<", 1),
    operator.le: ("<=", 1),
    operator.gt: (">", 1),
    operator.ge: (">=", 1),
    operator.eq: ("==", 1),
    operator.ne: ("!=", 1),
}


def spell(target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], speller: Speller) -> Text:
    """An operator's call as an expression."""
    if target in _INFIX and len(args) == 2 and not kwargs:
        sign, level = _INFIX[target]
        left, right = (speller.show(value) for value in args)
        return Text(f"{left.at(level)} {sign} {right.at(level + 1)}", level)
    if target is operator.getitem:
        whole, key = (speller.show(value) for value in args)
        return Text(f"{whole.at(ATOM)}[{key.text}]")
    return Text(f"{_name(target, speller)}({speller.arguments(args, kwargs)})")


def _name(target: Callable[..., Any], speller: Speller) -> str:
    if isinstance(target, _torch.OpOverload):
        return f"torch.ops.{target}"
    name = getattr(target, "__name__", "")
    if isinstance(target, _torch.HigherOrderOperator):
        return f"torch.ops.higher_order.{name or target.name()}"
    return speller.object(target, name or "function")
