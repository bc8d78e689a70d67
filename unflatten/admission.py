"""Checks on arguments: which of the known calls do they fit, and if none, why not.

The check of a call is compiled from its specs to plain comparisons, so that it costs little, and so that
`torch.compile` and `torch.export` can trace it. Only when it fails are the arguments taken apart again to
say what is wrong, all of it at once.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from unflatten import _torch
from unflatten.nesting import Access, Item, accesses
from unflatten.packing import pack_spec, unpack_spec
from unflatten.specs import AnySpec, Bounds, ConstantSpec, NumberSpec, Spec, TensorSpec


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a known call.

    Attributes:
        names: the parameters' names.
        in_spec: how `(args, kwargs)` nest, None where nothing recorded it.
        specs: what each leaf was.
    """

    names: tuple[str, ...]
    in_spec: _torch.TreeSpec | None
    specs: tuple[Spec, ...]

    def __reduce__(self) -> Any:
        return _unpack_arguments, (self.names, pack_spec(self.in_spec), self.specs)

    def leaves(self) -> Iterator[tuple[str, Access, Spec]]:
        """Each leaf, with the parameter that it belongs to and the steps to it."""
        if self.in_spec is None:
            yield from ((name, (), spec) for name, spec in zip(self.names, self.specs, strict=True))
            return
        specs = iter(self.specs)
        for name, part in self.parts():
            yield from ((name, access, next(specs)) for access in accesses(part))

    def parts(self) -> list[tuple[str, _torch.TreeSpec]]:
        """Each parameter, with how its argument nests."""
        if self.in_spec is None:
            return []
        positional, keywords = self.in_spec.children()
        return list(zip(self.names, (*positional.children(), *keywords.children()), strict=True))

    def __str__(self) -> str:
        shown: dict[str, list[str]] = {name: [] for name in self.names}
        for name, access, spec in self.leaves():
            shown[name].append(f"{_path(access)}{': ' if access else ''}{spec}")
        return ", ".join(f"{name}={' '.join(parts) if parts else '()'}" for name, parts in shown.items())


def _unpack_arguments(names: tuple[str, ...], in_spec: Any, specs: tuple[Spec, ...]) -> Arguments:
    return Arguments(names, unpack_spec(in_spec), specs)


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
        symbolic = tuple(text for guard in self.guards if (text := _in_symbols(guard, arguments)) is not None)
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
        lines += [f"if not ({guard}): return False" for guard in (*self.guards(), *self.symbolic())]
        return [*lines, "return True"]

    def place(self, name: str, access: Access) -> str:
        text = name
        for step in access:
            text = f"{text}[{step.key!r}]" if isinstance(step, Item) else f"{self.leaves}({text})[{step.index}]"
        return text

    def nesting(self) -> Iterator[str]:
        for name, part in self.arguments.parts():
            if not part.is_leaf():
                nests = self.object("nests", _torch.tree_structure_matches)
                yield f"{nests}({name}, {self.object('spec', part)})"

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
            resolver = _Sources(self.arguments.names, places)
            resolved = resolver.visit(ast.parse(guard, mode="eval"))
            if resolver.complete:
                yield ast.unparse(resolved)

    def symbolic(self) -> Iterator[str]:
        for guard in self.limits.symbolic:
            tree = ast.parse(guard, mode="eval")
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            symbols = {name for name in names if name.startswith(_SYMBOL)}
            if all(name.removeprefix(_SYMBOL) in self.variables for name in symbols):
                yield ast.unparse(_Renamed({_SYMBOL + name: text for name, text in self.variables.items()}).visit(tree))


_SYMBOL = "symbol_"
"""What symbols begin with in symbolic guards, so that they are told from functions."""


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


def _in_symbols(guard: str, arguments: Arguments) -> str | None:
    """A guard with symbols in place of the sizes that it reads; None if it is about anything else."""
    sizes = {}
    for name, access, spec in arguments.leaves():
        place = name + "".join(f"[{step.key!r}]" for step in access if isinstance(step, Item))
        for dimension, part in enumerate(spec.shape if isinstance(spec, TensorSpec) else ()):
            if isinstance(part, int) or part.is_Symbol:
                text = str(part) if isinstance(part, int) else f"{_SYMBOL}{part}"
                sizes[f"{place}.size()[{dimension}]"] = text
    resolver = _Sources(arguments.names, [])
    resolved = resolver.visit(ast.parse(guard, mode="eval"))
    text = ast.unparse(_Sizes(sizes).visit(resolved))
    left = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
    return text if resolver.complete and not left & set(arguments.names) else None


class _Sizes(ast.NodeTransformer):
    """Replaces sizes that are read by what they are."""

    def __init__(self, sizes: Mapping[str, str]) -> None:
        self.sizes = sizes

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        text = ast.unparse(node)
        if text in self.sizes:
            return ast.parse(self.sizes[text], mode="eval").body
        visited = self.generic_visit(node)
        return visited if isinstance(visited, ast.expr) else node


class _Sources(ast.NodeTransformer):
    """Replaces export's names for inputs, `L['x']['k']`, by the parameters of a check."""

    def __init__(self, names: Sequence[str], places: Sequence[str]) -> None:
        self.names = set(names)
        self.places = places
        self.complete = True

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(ast.Subscript(ast.Name("L"), ast.Constant("flat_args")), ast.Constant(int(at))):
                if at < len(self.places):
                    return ast.parse(self.places[at], mode="eval").body
            case ast.Subscript(ast.Subscript(ast.Name("L"), ast.Constant(str(name))), ast.Constant(key)) if (
                name not in self.names
            ):
                # *args and **kwargs arrive as parameters of their own.
                for parameter in (f"{name}_{key}", str(key)):
                    if parameter in self.names:
                        return ast.Name(parameter, ast.Load())
            case ast.Subscript(ast.Name("L"), ast.Constant(str(name))) if name in self.names:
                return ast.Name(name, ast.Load())
        visited = self.generic_visit(node)
        return visited if isinstance(visited, ast.expr) else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "L":
            self.complete = False
        return node


def _path(access: Access) -> str:
    return "".join(f"[{step.key!r}]" if isinstance(step, Item) else f"<leaf {step.index}>" for step in access)


def _sizes(place: str, spec: Spec) -> Iterator[tuple[str, Any]]:
    if isinstance(spec, TensorSpec):
        for dimension, part in enumerate(spec.shape):
            yield f"{place}.shape[{dimension}]", part
    elif isinstance(spec, NumberSpec):
        yield place, spec.expression


def is_same_constant(given: Any, expected: Any) -> bool:
    """Whether a caller's value is what the capture saw: `1`, `1.0` and `True` are different."""
    if expected is None or given is expected:
        return given is expected
    if isinstance(given, torch.Tensor) or type(given) is not type(expected):
        return False
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(given)
    return bool(given == expected)


def mismatches(arguments: Arguments, limits: Limits, values: Mapping[str, Any]) -> list[str]:
    """Everything in which arguments differ from those of a known call.

    Args:
        arguments: the known call's.
        limits: what the program requires.
        values: the argument for each parameter.
    """
    found = [
        f"argument `{name}` nests as {_torch.structure_text(values[name])}, expected {part}"
        for name, part in arguments.parts()
        if not part.is_leaf() and not _torch.tree_structure_matches(values[name], part)
    ]
    if found:
        return found
    bound: dict[str, tuple[int, str]] = {}
    for name, access, spec in arguments.leaves():
        where = f"argument `{name}{_path(access)}`"
        value = _reach(values[name], access)
        problem = _leaf_problem(value, spec)
        if problem:
            found.append(f"{where} {problem}")
            continue
        for dimension, (part, size) in enumerate(_given_sizes(value, spec)):
            at = f"{where} has size {size} in dimension {dimension}" if isinstance(spec, TensorSpec) else f"{where} is {size}"
            found += [f"{at}, {text}" for text in _size_problems(part, size, at, bound, limits)]
    return found


def _reach(value: Any, access: Access) -> Any:
    for step in access:
        value = value[step.key] if isinstance(step, Item) else _torch.tree_leaves(value)[step.index]
    return value


def _leaf_problem(value: Any, spec: Spec) -> str:
    if isinstance(spec, TensorSpec):
        if not isinstance(value, torch.Tensor):
            return f"is {type(value).__name__}, expected a tensor, {spec}"
        if value.dim() != len(spec.shape):
            return f"has {value.dim()} dimensions {tuple(value.shape)}, expected {len(spec.shape)}, {spec}"
    elif isinstance(spec, NumberSpec) and not isinstance(value, int | float | torch.SymInt | torch.SymFloat):
        return f"is {type(value).__name__}, expected a number"
    elif isinstance(spec, ConstantSpec) and not is_same_constant(value, spec.value):
        given = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        return f"is {given}; the program was captured for {spec.value!r} and nothing else"
    return ""


def _given_sizes(value: Any, spec: Spec) -> list[tuple[Any, Any]]:
    if isinstance(spec, TensorSpec):
        return list(zip(spec.shape, value.shape, strict=True))
    return [(spec.expression, value)] if isinstance(spec, NumberSpec) else []


def _size_problems(
    part: Any, size: int, at: str, bound: dict[str, tuple[int, str]], limits: Limits
) -> Iterator[str]:
    if isinstance(part, int):
        if size != part:
            yield f"expected {part}: the program was captured for that size only (export with dynamic_shapes to vary it)"
        return
    name = str(part)
    if part.is_Symbol:
        first, where = bound.setdefault(name, (size, at))
        if first != size:
            yield f"expected {first}, because {where} and the two have to be equal"
        bounds = limits.bounds.get(name, Bounds(None, None))
        if bounds.lower is not None and size < bounds.lower:
            yield f"expected at least {bounds.lower}"
        if bounds.upper is not None and size > bounds.upper:
            yield f"expected at most {bounds.upper}"
    else:
        known = {symbol: bound[str(symbol)][0] for symbol in part.free_symbols if str(symbol) in bound}
        if len(known) == len(part.free_symbols) and int(part.subs(known)) != size:
            yield f"expected {part} = {part.subs(known)}"


def describe(specs: Sequence[Spec]) -> str:
    """Specs in a line."""
    return ", ".join(map(str, specs)) if specs else "nothing"


def fits(value: Any, spec: Spec) -> bool:
    """Whether a value by itself could be what a spec describes."""
    if isinstance(spec, AnySpec):
        return True
    return not _leaf_problem(value, spec) and all(
        isinstance(part, int) is False or part == size for part, size in _given_sizes(value, spec)
    )
