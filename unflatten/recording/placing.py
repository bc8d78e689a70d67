"""Where recorded values are in the finished program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from unflatten import _torch
from unflatten.recording.record import number_value, numbers_of

Place = tuple[str, Any]


def inputs_of(program: ExportedProgram) -> Iterator[tuple[int, Place]]:
    """The inputs of the graph by number: saving a program drops the metadata of their nodes."""
    for node, place in _placed(program):
        for number in numbers_of(node.meta):
            yield number, place


def place_sizes(program: ExportedProgram, sizes: Sequence[tuple[int, Any]]) -> Iterator[tuple[int, Place]]:
    """Finds sizes again, and numbers the nodes that compute them.

    Export merges the nodes of sizes and drops those that no operator uses, so sizes are told by what they are
    symbolically. One that an input has, and no node gives, gets a node.
    """
    nodes: dict[Any, fx.Node | None] = {}
    for node in program.graph.nodes:
        expression = _torch.symbolic_expression(node.meta.get("val"))
        if expression is not None:
            nodes.setdefault(expression, node)
    places = dict(_placed(program))
    for number, size in sizes:
        expression = _torch.symbolic_expression(size)
        if expression is None or expression.is_number:
            yield number, ("constant", _number(size))
            continue
        if expression not in nodes:
            nodes[expression] = _measure(program, places, expression)
        found = nodes[expression]
        if found is None:
            continue
        if found in places:
            yield number, places[found]
        else:
            number_value(found, number)


def place_constants(
    program: ExportedProgram, constants: Sequence[tuple[int, torch.Tensor]]
) -> Iterator[tuple[int, Place]]:
    """Finds tensors again that modules hold as plain attributes, which the graph has only once they are used."""
    names = {id(value): name for name, value in program.constants.items()}
    for number, value in constants:
        if id(value) in names:
            yield number, ("state", names[id(value)])


def same_values(program: ExportedProgram, free: int) -> Iterator[tuple[int, int]]:
    """For the results of operators that had nothing to do, the numbers of what they were given.

    Args:
        program: the program.
        free: the first number that is not used yet.
    """
    for node in program.graph.nodes:
        given = node.args[0] if node.args else None
        if isinstance(given, fx.Node) and numbers_of(node.meta) and _does_nothing(node, given):
            if not numbers_of(given.meta):
                number_value(given, free)
                free += 1
            yield from ((number, numbers_of(given.meta)[0]) for number in numbers_of(node.meta))


_IDLE = ("to", "contiguous", "alias", "dropout", "feature_dropout", "alpha_dropout")


def _does_nothing(node: fx.Node, given: fx.Node) -> bool:
    before, after = given.meta.get("val"), node.meta.get("val")
    if not isinstance(node.target, _torch.OpOverload) or node.target._opname not in _IDLE:
        return False
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return False
    alike = (before.dtype, before.device, before.stride()) == (after.dtype, after.device, after.stride())
    return alike and not (node.target._opname.endswith("dropout") and node.args[2] is not False)


def _number(size: Any) -> Any:
    """A symbolic number that has only one value."""
    if isinstance(size, torch.SymBool):
        return bool(size)
    return float(size) if isinstance(size, torch.SymFloat) else int(size)


def _placed(program: ExportedProgram) -> Iterator[tuple[fx.Node, Place]]:
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    position = 0
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        user = spec.kind is InputKind.USER_INPUT
        yield node, (("user", position) if user else ("state", spec.target))
        position += user


def _measure(program: ExportedProgram, places: dict[fx.Node, Place], expression: Any) -> fx.Node | None:
    """A new node that takes a size from an input that has it."""
    for node in places:
        value = node.meta.get("val")
        for dimension, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if _torch.symbolic_expression(size) == expression:
                with program.graph.inserting_after(list(places)[-1]):
                    made: fx.Node = program.graph.call_function(torch.ops.aten.sym_size.int, (node, dimension))
                made.meta["val"] = size
                program.graph_module.recompile()
                return made
    return None
