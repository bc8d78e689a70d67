"""What is wrong with arguments, all of it at once, for messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from unflatten import _torch
from unflatten.calls.arguments import Arguments, path_text
from unflatten.calls.checks import Limits, is_one_tensor, is_same_constant
from unflatten.calls.nests import nests
from unflatten.calls.specs import AnySpec, Bounds, ConstantSpec, NumberSpec, Spec, TensorSpec
from unflatten.code.nesting import Access, Attr, Item


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
        if not part.is_leaf() and not nests(values[name], part)
    ]
    if found:
        return found
    reached = [(name, access, _reach(values[name], access)) for name, access, _ in arguments.leaves()]
    for first, other in arguments.twins:
        if isinstance(reached[other][2], torch.Tensor) and not is_one_tensor(reached[other][2], reached[first][2]):
            one, two = (f"`{name}{path_text(access)}`" for name, access, _ in (reached[first], reached[other]))
            found.append(f"arguments {one} and {two} have to be one tensor: the program was captured so")
    bound: dict[str, tuple[int, str]] = {}
    for name, access, spec in arguments.leaves():
        where = f"argument `{name}{path_text(access)}`"
        value = _reach(values[name], access)
        problem = _leaf_problem(value, spec)
        if problem:
            found.append(f"{where} {problem}")
            continue
        for dimension, (part, size) in enumerate(_given_sizes(value, spec)):
            at = (
                f"{where} has size {size} in dimension {dimension}"
                if isinstance(spec, TensorSpec)
                else f"{where} is {size}"
            )
            found += [f"{at}, {text}" for text in _size_problems(part, size, at, bound, limits)]
    return found


def _reach(value: Any, access: Access) -> Any:
    for step in access:
        if isinstance(step, Attr):
            value = getattr(value, step.name)
        else:
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


def _size_problems(part: Any, size: int, at: str, bound: dict[str, tuple[int, str]], limits: Limits) -> Iterator[str]:
    if isinstance(part, int):
        if size != part:
            yield f"expected {part}: the program was captured for that size only; export with dynamic_shapes to vary it"
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


def fits(value: Any, spec: Spec) -> bool:
    """Whether a value by itself could be what a spec describes."""
    if isinstance(spec, AnySpec):
        return True
    return not _leaf_problem(value, spec) and all(
        isinstance(part, int) is False or part == size for part, size in _given_sizes(value, spec)
    )
