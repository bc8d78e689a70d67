"""The first lines of the whole model's `forward`: they refuse what the program refuses."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from unflatten import _torch
from unflatten.calls.arguments import path_text
from unflatten.calls.guards import in_places
from unflatten.calls.known import KnownCall, Place
from unflatten.calls.specs import Bounds, ConstantSpec, NumberSpec, TensorSpec
from unflatten.code.nesting import Access, Leaf, reached
from unflatten.source.guards import simplified
from unflatten.source.signatures import Signature
from unflatten.source.text import quoted, unused

CHECK = '''
def check(name, tensor, *sizes, dtype=None):
    """Refuses a tensor that the model was not captured for; None is any size."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} has to be a tensor, not {tensor!r}")
    if tensor.dim() != len(sizes):
        raise ValueError(f"{name} has {tensor.dim()} dimensions, not {len(sizes)}")
    if dtype is not None and tensor.dtype != dtype:
        raise TypeError(f"{name} is of type {tensor.dtype}, not {dtype}")
    for at, size in enumerate(sizes):
        if size is not None and tensor.shape[at] != size:
            raise ValueError(f"{name}.shape[{at}] is {tensor.shape[at]}, not {size}")
'''
REQUIRE = '''
def require(condition, what):
    """Refuses arguments that the model was not captured for."""
    if not condition:
        raise ValueError(f"the model was captured for {what}")
'''


def checks_of(place: Place, signature: Signature, typed: Collection[tuple[str, Access]]) -> tuple[str, ...]:
    """The checks of a root's arguments; none where its calls were not recorded, or differ.

    Args:
        place: what the root knows of itself.
        signature: its parameters.
        typed: the leaves of arguments whose types are checked.
    """
    if not place.checks or len(place.calls) != 1 or place.calls[0].cut:
        return ()
    return tuple(_Writer(place.calls[0], place, signature, typed).lines())


@dataclass(slots=True)
class _Writer:
    call: KnownCall
    place: Place
    signature: Signature
    typed: Collection[tuple[str, Access]]
    variables: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """The checks, each a line."""
        wanted = self.wanted()
        later: list[tuple[str, Any]] = []
        places: list[str] = []
        for name, access, spec in self.call.arguments.leaves():
            text = reached(self.signature.renamed[name], access, "")
            places.append(text)
            if any(isinstance(step, Leaf) for step in access):
                continue
            label = f"{self.signature.renamed[name]}{path_text(access)}"
            if isinstance(spec, TensorSpec):
                dtype = f"dtype={spec.dtype}" if (name, access) in self.typed else ""
                yield from self.tensor([quoted(label), text, dtype], spec, wanted, later)
            elif isinstance(spec, NumberSpec) and spec.expression.is_Symbol:
                yield from self.bind(str(spec.expression), text, wanted)
            elif isinstance(spec, ConstantSpec):
                yield from _constant(text, spec.value)
        for text, expression in later:
            if all(str(symbol) in self.variables for symbol in expression.free_symbols):
                yield _required(f"{text} == {_torch.python_of(expression, self.variables)}")
        for first, other in self.call.arguments.twins:
            one, two = places[first], places[other]
            yield f"require({two} is {one} or torch.equal({two}, {one}), {quoted(f'{one} and {two} being one tensor')})"
        yield from self.guards(places)

    def wanted(self) -> set[str]:
        """The symbols that are needed more than once."""
        count: dict[str, int] = {}
        for _, _, spec in self.call.arguments.leaves():
            parts = spec.shape if isinstance(spec, TensorSpec) else ()
            parts = (spec.expression,) if isinstance(spec, NumberSpec) else parts
            for part in parts:
                for symbol in getattr(part, "free_symbols", ()):
                    count[str(symbol)] = count.get(str(symbol), 0) + 1
        return {name for name, times in count.items() if times > 1 or name in self.place.limits.bounds}

    def tensor(
        self, named: Sequence[str], spec: TensorSpec, wanted: set[str], later: list[tuple[str, Any]]
    ) -> Iterator[str]:
        label, text, dtype = named
        sizes: list[str] = []
        new: list[tuple[str, str]] = []
        for at, part in enumerate(spec.shape):
            if isinstance(part, int):
                sizes.append(str(part))
            elif part.is_Symbol and str(part) in self.variables:
                sizes.append(self.variables[str(part)])
            else:
                sizes.append("None")
                if part.is_Symbol and str(part) not in {name for name, _ in new}:
                    new.append((str(part), f"{text}.shape[{at}]"))
                else:
                    later.append((f"{text}.shape[{at}]", part))
        yield f"check({', '.join([label, text, *sizes, *([dtype] if dtype else [])])})"
        for symbol, size in new:
            yield from self.bind(symbol, size, wanted)

    def bind(self, symbol: str, text: str, wanted: set[str]) -> Iterator[str]:
        if symbol not in wanted:
            return
        if symbol in self.variables:
            yield _required(f"{text} == {self.variables[symbol]}")
            return
        taken = {*self.signature.renamed.values(), *self.variables.values()}
        variable = self.variables[symbol] = unused(f"s{len(self.variables)}", taken)
        yield f"{variable} = {text}"
        bounds = self.place.limits.bounds.get(symbol, Bounds(None, None))
        if bounds.lower is not None:
            yield _required(f"{variable} >= {bounds.lower}")
        if bounds.upper is not None:
            yield _required(f"{variable} <= {bounds.upper}")

    def guards(self, places: list[str]) -> Iterator[str]:
        sizes: dict[str, tuple[str, Any]] = {}
        for place, (_, _, spec) in zip(places, self.call.arguments.leaves(), strict=True):
            for at, part in enumerate(spec.shape if isinstance(spec, TensorSpec) else ()):
                sizes[ast.unparse(ast.parse(f"{place}.size()[{at}]"))] = self.size(f"{place}.shape[{at}]", part)
        found = dict.fromkeys(
            simplified(text, sizes)
            for guard in self.place.limits.guards
            if (text := in_places(guard, self.call.arguments.names, places)) is not None
        )
        yield from (_required(text) for text in found if text is not None)

    def size(self, text: str, part: Any) -> tuple[str, Any]:
        """A size as Python, and in symbols that are as large as they may be small."""
        if isinstance(part, int):
            return str(part), sympy.Integer(part)
        values = {}
        for symbol in part.free_symbols:
            lower = self.place.limits.bounds.get(str(symbol), Bounds(None, None)).lower or 0
            values[symbol] = lower + sympy.Symbol(str(symbol), integer=True, nonnegative=True)
        known = all(str(symbol) in self.variables for symbol in part.free_symbols)
        return _torch.python_of(part, self.variables) if known else text, part.xreplace(values)


def _constant(text: str, value: Any) -> Iterator[str]:
    if value is None or isinstance(value, bool):
        yield _required(f"{text} is {value}")
    elif type(value) in (int, float, str):
        shown = quoted(value) if isinstance(value, str) else repr(value)
        if shown not in ("nan", "inf", "-inf"):
            yield _required(f"{text} == {shown}")


def _required(condition: str) -> str:
    condition = ast.unparse(ast.parse(condition, mode="eval"))
    return f"require({condition}, {quoted(condition)})"
