"""Arguments to call a program with: its own examples, or tensors of the shapes that it was captured for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from unflatten import _torch
from unflatten.cli.faults import CommandError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_FREE = 2
"""The size of an axis that is free, where nothing tells another one."""


def arguments(program: ExportedProgram, seed: int) -> tuple[Arguments, str]:
    """Arguments, and where they are from.

    Raises:
        CommandError: there are no examples, and the shapes are not enough to make any.
    """
    if program.example_inputs:
        args, kwargs = program.example_inputs
        return (tuple(args), dict(kwargs or {})), "the program's example inputs"
    import torch

    generator = torch.Generator().manual_seed(seed)
    values = [_made(program, node.meta.get("val"), node.name, generator) for node in _inputs(program)]
    if program.call_spec.in_spec is None:
        return (tuple(values), {}), "random numbers of the program's shapes"
    args, kwargs = _torch.rebuild(values, program.call_spec.in_spec)
    return (tuple(args), dict(kwargs)), "random numbers of the program's shapes"


def _inputs(program: ExportedProgram) -> Iterable[torch.fx.Node]:
    names = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    if len(names) != len(program.graph_signature.user_inputs):
        raise CommandError("the program has no example inputs, and takes values that are no tensors: can't make any")
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return [nodes[name] for name in names]


def _made(program: ExportedProgram, like: Any, name: str, generator: torch.Generator) -> Any:
    """A value like one of the capture."""
    import torch

    if isinstance(like, torch.SymInt):
        return _size(program, like)
    if not isinstance(like, torch.Tensor):
        raise CommandError(f"the program has no example inputs, and its input {name!r} is no tensor: can't make one")
    shape = [_size(program, size) for size in like.shape]
    if like.dtype.is_floating_point or like.dtype.is_complex:
        return torch.randn(shape, generator=generator).to(like.dtype).to(like.device)
    high = 2 if like.dtype in (torch.bool, torch.uint8) else _FREE
    return torch.randint(0, high, shape, generator=generator).to(like.dtype).to(like.device)


def _size(program: ExportedProgram, size: Any) -> int:
    """A size that the program takes: what it was captured with, or the least in its range."""
    if isinstance(size, int):
        return size
    expression = _torch.symbolic_expression(size)
    hint = _torch.size_hint(size)
    if hint is not None:
        return hint
    limits = {
        symbol: max(_FREE, int(program.range_constraints[symbol].lower))
        if symbol in program.range_constraints
        else _FREE
        for symbol in expression.free_symbols
    }
    return int(expression.subs(limits))
