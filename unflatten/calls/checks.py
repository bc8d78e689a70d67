"""Checks on arguments, compiled.

The check of a known call is a function of plain comparisons, so that it costs little, and so that `torch.compile`
and `torch.export` can trace it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from unflatten import _torch
from unflatten.calls.arguments import Arguments
from unflatten.calls.guards import in_places, in_symbols, in_variables
from unflatten.calls.nests import nests
from unflatten.calls.specs import Bounds, ConstantSpec, NumberSpec, Spec, TensorSpec
from unflatten.code.nesting import Access, reached
from unflatten.fields import fields_of


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program requires of its symbols and inputs.

    Attributes:
        bounds: the range of each symbol.
        guards: conditions on the program's inputs, as export wrote them.
        symbolic: those of them that only concern sizes, in terms of symbols.
    """

    bounds: Mapping[str, Bounds]
    guards: tuple[str, ...] = ()
    symbolic: tuple[str, ...] = ()

    def inside(self, arguments: Arguments) -> Limits:
        """The limits that hold for calls inside of the program.

        Args:
            arguments: the program's own.
        """
        symbolic = tuple(text for guard in self.guards if (text := in_symbols(guard, arguments)) is not None)
        return Limits(self.bounds, (), symbolic)


Check = Callable[..., bool]


def compile_check(arguments: Arguments, limits: Limits) -> Check:
    """A function with the call's parameters that says whether arguments fit it.

    It raises `TypeError` where they can't be bound to the parameters at all.
    """
    writer = _CheckWriter(arguments, limits)
    lines = writer.lines()
    source = "\n".join([f"def accepts({', '.join(arguments.names)}):", *(f"    {line}" for line in lines)])
    namespace: dict[str, Any] = {**_torch.SYMPY_INTERP, "torch": torch, "math": math, **writer.objects}
    exec(compile(source, "<unflatten: check of arguments>", "exec"), namespace)
    check: Check = namespace["accepts"]
    return check


class _CheckWriter:
    """Writes the body of a check. Conditions end in `return False`, so that sizes are bound in between."""

    def __init__(self, arguments: Arguments, limits: Limits) -> None:
        self.arguments = arguments
        self.limits = limits
        self.objects: dict[str, Any] = {}
        self.variables: dict[str, str] = {}
        self.leaves = self.object("leaves", _torch.tree_leaves)
        self.is_a = self.object("is_a", isinstance)
        self.tensor = self.object("tensor", torch.Tensor)
        self.number = self.object("number", (int, float, torch.SymInt, torch.SymFloat))

    def object(self, base: str, value: Any) -> str:
        """A name for an object, none of the parameters'."""
        name = self.fresh(base)
        self.objects[name] = value
        return name

    def fresh(self, base: str) -> str:
        name = base
        while name in self.arguments.names or name in self.objects or name in self.variables.values():
            name += "_"
        return name

    def lines(self) -> list[str]:
        lines = [f"if not {condition}: return False" for condition in self.nesting()]
        later: list[tuple[str, Any]] = []
        for name, access, spec in self.arguments.leaves():
            place = self.place(name, access)
            lines += [f"if not {condition}: return False" for condition in self.leaf(place, spec)]
            for size, part in _sizes(place, spec):
                lines += self.size(size, part, later)
        for size, expression in later:
            lines += self.derived(size, expression)
        lines += [f"if not {condition}: return False" for condition in self.twins()]
        lines += [f"if not ({guard}): return False" for guard in (*self.guards(), *self.symbolic())]
        return [*lines, "return True"]

    def twins(self) -> Iterator[str]:
        places = [self.place(name, access) for name, access, _ in self.arguments.leaves()]
        for first, other in self.arguments.twins:
            yield f"{self.object('one', is_one_tensor)}({places[other]}, {places[first]})"

    def place(self, name: str, access: Access) -> str:
        return reached(name, access, self.leaves)

    def nesting(self) -> Iterator[str]:
        for name, part in self.arguments.parts():
            if not part.is_leaf():
                function = self.object("nests", nests)
                yield f"{function}({name}, {self.object('spec', part)})"

    def leaf(self, place: str, spec: Spec) -> list[str]:
        if isinstance(spec, TensorSpec):
            return [f"{self.is_a}({place}, {self.tensor})", f"{place}.dim() == {len(spec.shape)}"]
        if isinstance(spec, NumberSpec):
            return [f"{self.is_a}({place}, {self.number})"]
        if isinstance(spec, ConstantSpec):
            same = self.object("same", is_same_constant)
            return [f"{same}({place}, {self.object('constant', spec.value)})"]
        return []

    def size(self, place: str, part: Any, later: list[tuple[str, Any]]) -> list[str]:
        if isinstance(part, int):
            return [f"if {place} != {part}: return False"]
        name = str(part)
        if not part.is_Symbol:
            later.append((place, part))
            return []
        if name in self.variables:
            return [f"if {place} != {self.variables[name]}: return False"]
        return self.bind(name, place)

    def bind(self, symbol: str, text: str) -> list[str]:
        variable = self.variables[symbol] = self.fresh(symbol)
        bounds = self.limits.bounds.get(symbol, Bounds(None, None))
        lines = [f"{variable} = {text}"]
        lines += [f"if {variable} < {bounds.lower}: return False"] if bounds.lower is not None else []
        return lines + ([f"if {variable} > {bounds.upper}: return False"] if bounds.upper is not None else [])

    def derived(self, place: str, expression: Any) -> list[str]:
        """A size that is computed from symbols; solved for the symbol where no size is the symbol itself."""
        lines = []
        unbound = sorted(str(symbol) for symbol in expression.free_symbols if str(symbol) not in self.variables)
        if len(unbound) == 1:
            solution = _torch.solve_size(expression, unbound[0], place)
            if solution is None:
                return []
            lines = self.bind(unbound[0], solution)
        elif unbound:
            return []
        return [*lines, f"if {place} != {_torch.python_of(expression, self.variables)}: return False"]

    def guards(self) -> Iterator[str]:
        places = [self.place(name, access) for name, access, _ in self.arguments.leaves()]
        for guard in self.limits.guards:
            text = in_places(guard, self.arguments.names, places)
            if text is not None:
                yield text

    def symbolic(self) -> Iterator[str]:
        for guard in self.limits.symbolic:
            text = in_variables(guard, self.variables)
            if text is not None:
                yield text


def _sizes(place: str, spec: Spec) -> Iterator[tuple[str, Any]]:
    if isinstance(spec, TensorSpec):
        for dimension, part in enumerate(spec.shape):
            yield f"{place}.shape[{dimension}]", part
    elif isinstance(spec, NumberSpec):
        yield place, spec.expression


def is_one_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are one, or copies of one as far as that can be told."""
    if a is b:
        return True
    if torch.compiler.is_compiling() or not {type(a), type(b)} <= _PLAIN or a.is_meta or b.is_meta:
        return False
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).logical_or(a.isnan() & b.isnan()).all())


_PLAIN = {torch.Tensor, torch.nn.Parameter}


def is_same_constant(given: Any, expected: Any) -> bool:
    """Whether a caller's value is what the capture saw: `1`, `1.0` and `True` are different."""
    if expected is None or given is expected:
        return given is expected
    if isinstance(given, torch.Tensor) or type(given) is not type(expected):
        return False
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(given)
    equality: Any = type(expected).__eq__
    if equality is object.__eq__:
        return _same_fields(given, expected)
    return bool(given == expected)


def _same_fields(given: Any, expected: Any) -> bool:
    """Whether two objects that say nothing of equality hold the same."""
    ours, theirs = fields_of(given), fields_of(expected)
    if ours is None or theirs is None or ours.keys() != theirs.keys():
        return False
    return all(is_same_constant(ours[name], theirs[name]) for name in ours)
