"""How operators are spelled in code: `x + y`, `torch.softmax(x, -1)`, `x.view(2, 3)`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from unflatten import _torch
from unflatten.code.body import Held, Local
from unflatten.code.spelling_table import SIGNS, SPELLINGS

ATOM = 10
"""The precedence of names, calls and subscripts: what never needs parentheses."""


@dataclass(frozen=True, slots=True)
class Text:
    """An expression, and how tightly it binds (Python's order of precedence).

    Attributes:
        text: the expression.
        level: how tightly it binds.
        sliced: for all of a tensor, sliced along dimensions: what is sliced, nothing where that is written already, and
            a number above those dimensions.
    """

    text: str
    level: int = ATOM
    sliced: tuple[str, int] | None = None

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

    def helper(self, name: str) -> str:
        """The name under which the code has a helper, such as `torch`."""


_LEVELS = {
    "**": 9, "~": 8, "*": 7, "/": 7, "//": 7, "%": 7, "@": 7, "+": 6, "-": 6, "&": 4, "^": 3, "|": 2,
    "<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "!=": 1,
}  # fmt: skip
_UNARY = 8
_COMPARISONS = frozenset(sign for sign, level in _LEVELS.items() if level == 1)
_PYTHON = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.lt: "<", operator.le: "<=", operator.gt: ">",
    operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip
_SPREAD = frozenset({".view", ".reshape", ".permute", ".expand", ".repeat"})
"""Methods whose list argument people write out."""
_END = 9223372036854775807
"""What stands for an open end in `aten.slice`."""


def spell(target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], speller: Speller) -> Text:
    """An operator's call as an expression."""
    if isinstance(target, _torch.OpOverload):
        text = _overload(target, args, kwargs, speller) if target.namespace == "aten" else None
        name = f"{speller.helper('torch')}.ops.{target}"
        return text or Text(f"{name}({speller.arguments(args, kwargs)})")
    if target in _PYTHON and len(args) == 2 and not kwargs:
        return _infix(_PYTHON[target], args, speller)
    if target is operator.getitem:
        whole, key = (speller.show(value) for value in args)
        return Text(f"{whole.at(ATOM)}[{key.text}]")
    return Text(f"{_name(target, speller)}({speller.arguments(args, kwargs)})")


def _overload(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], speller: Speller) -> Text | None:
    """The spelling of an ATen overload that dispatches to it; None where there is none."""
    name = f"{target._opname}.{target._overloadname}"
    if not kwargs and name in _SPECIAL:
        text = _SPECIAL[name](args, speller)
        if text is not None:
            return text
    sign = SIGNS.get(name)
    if sign and not kwargs and _takes_sign(sign, name, args):
        if len(args) == 1:
            return Text(f"{sign}{speller.show(args[0]).at(_UNARY)}", _UNARY)
        return _infix(sign, args, speller)
    spelled = SPELLINGS.get(name)
    if spelled is None:
        return None
    if not spelled.startswith("."):
        module, _, rest = spelled.partition(".")
        return Text(f"{speller.helper(module)}.{rest}({speller.arguments(args, kwargs)})")
    if not args or not isinstance(args[0], Local | Held):
        return None
    others = args[1:]
    if spelled in _SPREAD and len(others) == 1 and isinstance(others[0], list) and others[0]:
        others = tuple(others[0])
    return Text(f"{speller.show(args[0]).at(ATOM)}{spelled}({speller.arguments(others, kwargs)})")


def _infix(sign: str, args: tuple[Any, ...], speller: Speller) -> Text:
    level = _LEVELS[sign]
    left, right = (speller.show(value) for value in args)
    if sign in _COMPARISONS:  # they chain
        return Text(f"{left.at(level + 1)} {sign} {right.at(level + 1)}", level)
    if sign == "**":
        return Text(f"{left.at(ATOM)} {sign} {right.at(ATOM)}", level)
    return Text(f"{left.at(level)} {sign} {right.at(level + 1)}", level)


def _takes_sign(sign: str, name: str, args: tuple[Any, ...]) -> bool:
    """Whether Python would dispatch a sign to this very overload."""
    if not isinstance(args[0], Local | Held) or len(args) > 2:
        return False
    tensor = len(args) == 1 or isinstance(args[1], Local | Held)
    number = len(args) == 2 and type(args[1]) in (int, float)
    if name.endswith("Scalar"):
        return number
    return tensor or (number and sign in "+-*/")


def _to(args: tuple[Any, ...], speller: Speller) -> Text | None:
    """`x.to(dtype)` and `x.to(device, dtype)`; the other forms mean something else to Python."""
    if 2 <= len(args) <= 3 and all(isinstance(value, torch.dtype | torch.device) for value in args[1:]):
        return Text(f"{speller.show(args[0]).at(ATOM)}.to({speller.arguments(args[1:], {})})")
    return None


def _slice(args: tuple[Any, ...], speller: Speller) -> Text | None:
    """`x[:, 1:3]`; not `x[:]`, which Python does not dispatch."""
    defaults: tuple[Any, ...] = (0, None, None, 1)
    tensor, dimension, start, end, step = args + defaults[len(args) - 1 :]
    begin = "" if start in (0, None) and type(start) in (int, type(None)) else speller.show(start).text
    stop = "" if end is None or (type(end) is int and end == _END) else speller.show(end).text
    stride = "" if type(step) is int and step == 1 else f":{speller.show(step).text}"
    if type(dimension) is not int:
        return None
    if not (begin or stop or stride):
        text = f"{speller.helper('torch')}.ops.aten.slice.Tensor({speller.arguments(args, {})})"
        return Text(text, sliced=(_indexed(tensor, dimension, speller), dimension + 1))
    base = _indexed(tensor, dimension, speller)
    return Text(f"{base}[{_along(dimension, f'{begin}:{stop}{stride}')}]") if base else None


def _indexed(tensor: Any, dimension: int, speller: Speller) -> str:
    """What an index into a dimension is written after. Where sizes vary, the `:` before it slice as well.

    Nothing, where those slices stand in a statement of their own: an index would slice once more.
    """
    found = speller.show(tensor)
    return found.sliced[0] if found.sliced and found.sliced[1] <= dimension else found.at(ATOM)


def _select(args: tuple[Any, ...], speller: Speller) -> Text | None:
    """`x[:, 0]`."""
    tensor, dimension, index = args
    if type(dimension) is not int or type(index) is not int:
        return None
    base = _indexed(tensor, dimension, speller)
    return Text(f"{base}[{_along(dimension, str(index))}]") if base else None


def _along(dimension: int, part: str) -> str:
    """An index into one dimension, counted from either end."""
    if dimension >= 0:
        return ":, " * dimension + part
    return "..., " + part + ", :" * (-dimension - 1)


def _size(args: tuple[Any, ...], speller: Speller) -> Text | None:
    """`x.shape[0]`."""
    return Text(f"{speller.show(args[0]).at(ATOM)}.shape[{speller.show(args[1]).text}]")


def _method(name: str) -> Callable[[tuple[Any, ...], Speller], Text]:
    """Methods that Python resolves without dispatching to an operator of their own, with the same result."""

    def write(args: tuple[Any, ...], speller: Speller) -> Text:
        return Text(f"{speller.show(args[0]).at(ATOM)}.{name}({speller.arguments(args[1:], {})})")

    return write


def _property(name: str) -> Callable[[tuple[Any, ...], Speller], Text]:
    def write(args: tuple[Any, ...], speller: Speller) -> Text:
        return Text(f"{speller.show(args[0]).at(ATOM)}.{name}")

    return write


def _einsum(args: tuple[Any, ...], speller: Speller) -> Text | None:
    """`torch.einsum("ij,jk->ik", x, y)`; for more tensors Python's chooses an order of its own."""
    equation, tensors = args
    if len(tensors) > 2:
        return None
    return Text(f"{speller.helper('torch')}.einsum({speller.arguments((equation, *tensors), {})})")


_SPECIAL: dict[str, Callable[[tuple[Any, ...], Speller], Text | None]] = {
    "to.dtype": _to,
    "to.device": _to,
    "slice.Tensor": _slice,
    "select.int": _select,
    "einsum.default": _einsum,
    "mT.default": _property("mT"),
    "mH.default": _property("mH"),
    "numpy_T.default": _property("T"),
    "matrix_H.default": _property("H"),
    "sym_size.int": _size,
    "sym_numel.default": _method("numel"),
    "sym_stride.int": _method("stride"),
    "sym_storage_offset.default": _method("storage_offset"),
    "contiguous.default": _method("contiguous"),
}


def _name(target: Callable[..., Any], speller: Speller) -> str:
    name: str = getattr(target, "__name__", "")
    if isinstance(target, _torch.HigherOrderOperator):
        name = str(target.name())  # type: ignore[no-untyped-call]
        return f"{speller.helper('torch')}.ops.higher_order.{name}"
    if getattr(torch, name, None) is target:
        return f"{speller.helper('torch')}.{name}"
    return speller.object(target, name or "function")
