"""Expressions that loading a program evaluates: sizes, which sympy parses by evaluating them, and guards."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from functools import lru_cache

_PLAIN = re.compile(r"[\w .\-@:/]*")
_NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?|-?inf|nan")
_SIZES = frozenset(
    {
        "Abs", "Add", "And", "BooleanFalse", "BooleanTrue", "CeilDiv", "CeilToInt", "CleanDiv", "Eq",
        "Equality", "ExprCondPair", "Float", "FloatPow", "FloatTrueDiv", "FloorDiv", "FloorToInt", "Ge",
        "GreaterThan", "Gt", "Half", "Identity", "IntTrueDiv", "Integer", "IsNonOverlappingAndDenseIndicator",
        "LShift", "Le", "LessThan", "Lt", "Max", "Min", "Mod", "ModularIndexing", "Mul", "Ne", "Not", "Or",
        "Piecewise", "Pow", "PowByNatural", "PythonMod", "RShift", "Rational", "RoundDecimal", "RoundToInt",
        "StrictGreaterThan", "StrictLessThan", "Symbol", "ToFloat", "TruncToFloat", "TruncToInt", "Unequality",
        "Where", "Xor", "ceiling", "floor", "sqrt",
    }
)  # fmt: skip
"""The functions of sizes, of sympy and of torch."""
_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift")
_FUNCTIONS = frozenset(
    {"len", "max", "min", "abs", "int", "float", "bool", *_SIZES, "cast_symbool_to_symint_guardless"}
)
_METHODS = frozenset({"size", "stride", "storage_offset", "item", "dim", "shape", "dtype", "device", "layout"})
_ARITHMETIC = (
    ast.Expression, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.Name, ast.keyword, ast.Tuple, ast.List, ast.IfExp,
)  # fmt: skip


@lru_cache(maxsize=1 << 12)
def is_size(text: str) -> bool:
    """Whether an expression is arithmetic over symbols and nothing else.

    >>> is_size("Add(Symbol('s0', integer=True), Integer(-1))"), is_size("s0 // 2")
    (True, True)
    >>> is_size("__import__('os').getpid()"), is_size("Integer('__import__(1)')"), is_size("9**9**9**9")
    (False, False, False)
    """
    return _holds(text, _allowed_in_size)


def is_guard(text: str) -> bool:
    """Whether a guard only compares what it reads from the inputs.

    >>> is_guard("L['x']['k'].size()[0] == 2 * L['y'].size()[1]"), is_guard("math.isnan(L['x'])")
    (True, True)
    >>> is_guard("L['x'].to('cuda') is None"), is_guard("print(L)"), is_guard("torch.load('x')")
    (False, False, False)
    """
    return _holds(text, _allowed_in_guard)


def _holds(text: str, allowed: Callable[[ast.AST, set[int]], bool]) -> bool:
    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    strings = {id(node.args[0]) for node in nodes if isinstance(node, ast.Call) and node.args}
    return not any(map(_is_power_of_numbers, nodes)) and all(allowed(node, strings) for node in nodes)


def _allowed_in_size(node: ast.AST, strings: set[int]) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and _is_size_function(node.func.id) and _texts_fit(node)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) or (isinstance(node.value, str) and id(node) in strings)
    return isinstance(node, _ARITHMETIC)


def _is_size_function(name: str) -> bool:
    return name in _SIZES or name.startswith("OpaqueUnaryFn_")


def _is_power_of_numbers(node: ast.AST) -> bool:
    """Whether a power could be any number, so that computing it need not end."""
    match node:
        case ast.BinOp(op=ast.Pow() | ast.LShift()):
            pass
        case ast.Call(ast.Name(str(name))) if name in _POWERS:
            pass
        case _:
            return False
    inside = [other for other in ast.walk(node) if isinstance(other, ast.Name)]
    return all(other.id in _SIZES and other.id != "Symbol" for other in inside)


def _texts_fit(call: ast.Call) -> bool:
    """Whether the only text in a call is the name of a symbol, or a number: all other text sympy evaluates."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    for at, argument in enumerate(call.args):
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            is_symbol = name == "Symbol" and argument.value.isidentifier()
            is_number = name == "Float" and _NUMBER.fullmatch(argument.value) is not None
            if at > 0 or not (is_symbol or is_number):
                return False
    return True


def _allowed_in_guard(node: ast.AST, strings: set[int]) -> bool:  # noqa: ARG001  # one signature for both
    match node:
        case ast.Call(ast.Attribute(ast.Name("math" | "torch" as module), str(name))):
            return hasattr(math, name) if module == "math" else name.startswith("sym_")
        case ast.Call(ast.Attribute()):
            return True  # the attribute is looked at by itself
        case ast.Call(ast.Name(str(name))):
            return name in _FUNCTIONS
        case ast.Attribute(ast.Name("math" | "torch"), str(name)):
            return name.isidentifier() and not name.startswith("_")
        case ast.Attribute(_, str(name)):
            return name in _METHODS
        case ast.Constant(str() | bytes() as value):
            return isinstance(value, str) and is_plain(value)
    return isinstance(node, (*_ARITHMETIC, ast.Constant, ast.Subscript, ast.Slice))


def is_plain(text: str) -> bool:
    """Whether text can stand between quotes in code without ending them."""
    return _PLAIN.fullmatch(text) is not None
