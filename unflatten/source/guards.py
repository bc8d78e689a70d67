"""Conditions on sizes that export wrote, as a person would: in terms of names, and only where they say anything.

Their text comes from the program, so that only what is known to be harmless gets into code.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy

_OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: lambda a, b: sympy.floor(sympy.cancel(a / b)), ast.Pow: operator.pow,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.USub: operator.neg,
    ast.Not: lambda value: None if not isinstance(value, bool) else not value,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"max": sympy.Max, "min": sympy.Min, "abs": sympy.Abs}


class _UnknownError(Exception):
    pass


def simplified(guard: str, sizes: Mapping[str, tuple[str, Any]]) -> str | None:
    """A guard as Python; None where it always holds, or is about anything else than sizes.

    Args:
        guard: a condition on sizes, `x.size()[0] >= 4`.
        sizes: for each size in it, Python for it, and what it is in terms of symbols.

    >>> t = sympy.Symbol("t", integer=True, nonnegative=True)
    >>> sizes = {"x.size()[0]": ("2 * s0", 2 * t), "y.size()[0]": ("s0", t)}
    >>> simplified("x.size()[0] // 2 != 5", sizes), simplified("x.size()[0] % 2 == 0", sizes)
    ('2 * s0 // 2 != 5', None)
    >>> simplified("__import__('os').system('x')", sizes)
    """
    tree = ast.parse(guard, mode="eval").body
    try:
        value = _value(tree, sizes)
        text = ast.unparse(_Names(sizes).visit(tree))
    except _UnknownError:
        return None
    return None if value is True or value is sympy.true else text


def _value(node: ast.expr, sizes: Mapping[str, tuple[str, Any]]) -> Any:
    """What an expression is; a relation of sympy where that depends on sizes."""
    key = ast.unparse(node) if isinstance(node, ast.Subscript) else ""
    if key in sizes:
        return sizes[key][1]
    match node:
        case ast.Constant(bool() | int() | float() as number):
            return number if isinstance(number, bool) else sympy.sympify(number)
        case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]) if type(sign) in _OPERATORS:
            return _applied(_OPERATORS[type(sign)], _value(left, sizes), _value(right, sizes))
        case ast.UnaryOp(sign, operand) if type(sign) in _OPERATORS:
            return _applied(_OPERATORS[type(sign)], _value(operand, sizes))
        case ast.Call(ast.Name(name), args, []) if name in _FUNCTIONS:
            return _applied(_FUNCTIONS[name], *(_value(each, sizes) for each in args))
        case ast.BoolOp(sign, values):
            found = [_value(each, sizes) for each in values]
            known = [each is True or each is sympy.true for each in found]
            return True if (all if isinstance(sign, ast.And) else any)(known) else None
    raise _UnknownError


def _applied(function: Callable[..., Any], *values: Any) -> Any:
    if any(value is None for value in values):
        return None
    try:
        value = function(*values)
    except TypeError:
        return None
    if function is operator.eq or function is operator.ne:  # of structures: unequal ones may have equal values
        return _equality(function is operator.eq, value, values)
    return value


def _equality(wanted: bool, found: bool, values: tuple[Any, ...]) -> bool | None:
    """Whether values are equal, or differ, as wanted; None where that depends on sizes."""
    if found is wanted or all(each.is_number for each in values):
        return found
    difference = sympy.simplify(values[0] - values[1])
    return True if (difference.is_zero if wanted else difference.is_nonzero) else None


class _Names(ast.NodeTransformer):
    """Puts the text of sizes in their place."""

    def __init__(self, sizes: Mapping[str, tuple[str, Any]]) -> None:
        self.sizes = sizes

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """A size as it is called."""
        return ast.parse(self.sizes[ast.unparse(node)][0], mode="eval").body
