"""From a record to the forms of calls: what each took and gave, as values of the program."""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from unflatten.flat.values import FlatNode, FlatProgram, Value
from unflatten.paths import ModuleCall, Scope
from unflatten.recording.encoding import Reference, UnreadableError, decode
from unflatten.recording.record import Record, RecordedCall, is_handed_through, item_numbers_of, numbers_of
from unflatten.removed import REMOVED
from unflatten.scopes import ScopeReader
from unflatten.signatures import Form, parameter_names


@dataclass(frozen=True, slots=True)
class RecordedForms:
    """What a record tells of the calls in a program.

    Attributes:
        forms: the calls whose form is known.
        around: the calls around each recorded call.
        unknown: why the form of a recorded call is not known.
    """

    forms: Mapping[ModuleCall, Form] = field(default_factory=dict)
    around: Mapping[ModuleCall, Scope] = field(default_factory=dict)
    unknown: Mapping[ModuleCall, str] = field(default_factory=dict)


def recorded_forms(program: FlatProgram, record: Record) -> RecordedForms:
    """Finds the values that recorded calls took and gave, in time linear in record and program.

    What a pass has removed from the graph, or made ambiguous, is `REMOVED`.
    """
    known = dict(_values(program, record))

    def value(number: int) -> Any:
        while number not in known and number in record.same:
            number = record.same[number]
        return known.get(number, REMOVED)

    forms: dict[ModuleCall, Form] = {}
    around: dict[ModuleCall, Scope] = {}
    unknown: dict[ModuleCall, str] = {}
    for call, scope in zip(record.calls, _scopes(program, record), strict=True):
        if not scope:
            continue
        try:
            forms[scope[-1]] = _form(call, scope[-1], value)
        except UnreadableError as error:
            unknown[scope[-1]] = str(error)
        around[scope[-1]] = scope[:-1]
    return RecordedForms(forms, around, unknown)


def _form(call: RecordedCall, made: ModuleCall, value: Callable[[int], Any]) -> Form:
    in_spec, arguments = decode(call.arguments)
    out_spec, results = decode(call.result)
    names = in_spec.child(1).context
    if not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        raise UnreadableError("a keyword that is no name")

    def given(leaf: Any) -> Any:
        return value(leaf.number) if isinstance(leaf, Reference) else leaf

    def returned(leaf: Any) -> Any:
        return _own(value(leaf.number), made) if isinstance(leaf, Reference) else leaf

    return Form(
        arguments=tuple(map(given, arguments)),
        in_spec=in_spec,
        results=tuple(map(returned, results)),
        out_spec=out_spec,
        names=parameter_names(in_spec, call.names),
    )


def _own(value: Any, call: ModuleCall) -> Any:
    """What a call returns: not a view that removing mutation took anew of it, inside of another call."""
    while isinstance(value, FlatNode) and is_handed_through(value.meta) and call not in (value.scope or ()):
        value = value.args[0]
    return value


def _values(program: FlatProgram, record: Record) -> Iterator[tuple[int, Any]]:
    """The values that carry a number.

    A decomposed operator leaves its number on all that became of it; its value is the one that none of the
    others use. Sizes that torch takes of a tensor get the tensor's metadata, its number too.
    """
    by_position: dict[Any, Value] = {value.position: value for value in program.user_inputs}
    by_name: dict[Any, Value] = {value.fqn: value for value in program.inputs if value.fqn}
    for number, (kind, place) in record.inputs.items():
        found = place if kind == "constant" else (by_position if kind == "user" else by_name).get(place)
        if found is not None:
            yield number, found
    tagged: dict[int, list[FlatNode]] = {}
    for node in program.nodes:
        for tag in _numbers(node):
            if tag not in record.inputs:
                tagged.setdefault(tag, []).append(node)
    for tag, nodes in tagged.items():
        tensors = [node for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)] or nodes
        inner = {operand for node in tensors for operand in node.operands}
        last = [node for node in tensors if node not in inner]
        if len(last) == 1:
            yield tag, last[0]


def _numbers(node: FlatNode) -> Iterator[int]:
    whole = node.args[0] if node.target is operator.getitem else None
    if isinstance(whole, FlatNode):
        yield from dict.fromkeys((*numbers_of(node.meta), *item_numbers_of(whole.meta, node.args[1])))
    else:
        yield from numbers_of(node.meta)


def _scopes(program: FlatProgram, record: Record) -> Iterator[Scope]:
    """For each recorded call, the calls around it and itself; nothing for a module outside of the hierarchy."""
    reader = ScopeReader(program.paths, program.aliases)
    stacks: list[dict[str, tuple[str, str]]] = []
    scopes: list[Scope] = []
    for call in record.calls:
        key = f"{call.path}@{call.index}" if call.index else call.path
        module = record.modules.get(call.path)
        stack = {**stacks[call.outer]} if call.outer >= 0 else {}
        stack[key] = (call.path, module.type if module else "")
        stacks.append(stack)
        outer = scopes[call.outer] if call.outer >= 0 else ()
        scope = reader.read({"nn_module_stack": stack}) or ()
        scopes.append(scope)
        yield scope if len(scope) > len(outer) else ()


NONE = RecordedForms()
"""What a program without a record tells."""
