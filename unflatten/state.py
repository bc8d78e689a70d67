"""Who owns which parameter, buffer and constant, and which of them are one tensor.

The result of unflattening holds the program's own tensors. Only memory that the program writes, or all of
it on request, is copied, and then what shared memory before shares it afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch.nn import Parameter

from unflatten import _torch
from unflatten.flat.tensors import address, storage_key, tensor_key
from unflatten.flat.values import FlatInput, FlatProgram, Source
from unflatten.paths import ModulePath


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One name under which a module holds something.

    Attributes:
        owner: the module.
        name: the attribute.
        source: parameter, buffer, constant or object.
        persistent: whether the state dict holds it.
        value: what is held in the program.
    """

    owner: ModulePath
    name: str
    source: Source
    persistent: bool
    value: Any


@dataclass(frozen=True, slots=True)
class StatePlan:
    """The state of a program, by name and by tensor.

    Attributes:
        entries: what the modules hold, in the order of the original's state dict.
        names: for each input of the graph, every (module, attribute) that holds its value.
        literals: the inputs that no module held: tensors written out inside of a `forward`.
        tensors: the value of each input.
        constants: for each module, the names of the tensors that it holds as plain attributes.
    """

    entries: tuple[StateEntry, ...]
    names: Mapping[FlatInput, tuple[tuple[ModulePath, str], ...]]
    literals: frozenset[FlatInput]
    tensors: Mapping[FlatInput, Any]
    constants: Mapping[ModulePath, list[str]]

    def holders(self) -> dict[FlatInput, list[ModulePath]]:
        """The modules that hold each input's value."""
        return {value: [owner for owner, _ in names] for value, names in self.names.items()}

    def storage_key(self, value: FlatInput) -> Hashable | None:
        """What the inputs that share memory have in common."""
        return storage_key(self.tensors.get(value))


def plan_state(program: FlatProgram) -> StatePlan:
    """Finds every state entry of a program and what it is an alias of."""
    entries = [*_in_order(program, _registered(program), _non_persistent(program)), *_constants(program)]
    by_tensor: dict[Hashable, list[tuple[ModulePath, str]]] = {}
    for entry in entries:
        by_tensor.setdefault(_key(entry.value, entry.source), []).append((entry.owner, entry.name))
    names, tensors = {}, {}
    literals = set()
    for value in program.inputs:
        if value.source in (Source.USER, Source.TOKEN):
            continue
        tensors[value] = held = _value_of(program, value)
        own = _owner_and_name(value.fqn)
        found = by_tensor.get(_key(held, value.source), [])
        names[value] = tuple(sorted(found, key=lambda name: name != own))
        if not found:
            literals.add(value)
    constants: dict[ModulePath, list[str]] = {}
    for entry in entries:
        if entry.source is Source.CONSTANT:
            constants.setdefault(entry.owner, []).append(entry.name)
    return StatePlan(tuple(entries), names, frozenset(literals), tensors, constants)


def _registered(program: FlatProgram) -> Iterable[StateEntry]:
    signature = program.source.graph_signature
    parameters, buffers = set(signature.parameters), set(signature.buffers)
    for fqn, value in program.source.state_dict.items():
        if not isinstance(value, torch.Tensor):
            continue
        trainable = fqn in parameters or (fqn not in buffers and isinstance(value, Parameter))
        owner, name = _owner_and_name(fqn)
        yield StateEntry(owner, name, Source.PARAMETER if trainable else Source.BUFFER, True, value)


def _non_persistent(program: FlatProgram) -> Iterable[StateEntry]:
    held = program.source.state_dict
    for value in program.inputs:
        if value.source in (Source.BUFFER, Source.PARAMETER) and value.fqn not in held:
            owner, name = _owner_and_name(value.fqn)
            yield StateEntry(owner, name, value.source, value.persistent, program.source.constants[value.fqn])


_Place = tuple[ModulePath, str]


def _in_order(
    program: FlatProgram, registered: Iterable[StateEntry], others: Iterable[StateEntry]
) -> Iterator[StateEntry]:
    """Both kinds, with each that is not persistent where the original registered it: the inputs are in that order.

    That holds within a module; removing mutation takes the modules with parameters first. So it comes behind the buffer
    of its module that it followed, or before the one that followed it.
    """
    persistent = {(entry.owner, entry.name): entry for entry in registered}
    waiting = {(entry.owner, entry.name): entry for entry in others}
    fixed = {place for place, entry in persistent.items() if entry.source is Source.BUFFER}
    owners = {owner for owner, _ in fixed}
    before: dict[_Place, list[StateEntry]] = {}
    behind: dict[_Place, list[StateEntry]] = {}
    last: dict[ModulePath, _Place] = {}
    early: dict[ModulePath, list[StateEntry]] = {}
    alone: list[StateEntry] = []
    for place in (_owner_and_name(value.fqn) for value in program.inputs):
        owner = place[0]
        if place in fixed:
            before[place], alone = [*alone, *early.pop(owner, ())], []
            last[owner] = place
        elif place in waiting and owner in last:
            behind.setdefault(last[owner], []).append(waiting[place])
        elif place in waiting:
            (early.setdefault(owner, []) if owner in owners else alone).append(waiting[place])
    for place, entry in persistent.items():
        yield from (*before.get(place, ()), entry, *behind.get(place, ()))
    yield from (*chain.from_iterable(early.values()), *alone)


def _constants(program: FlatProgram) -> Iterable[StateEntry]:
    paths = set(program.paths)
    buffers = {value.fqn for value in program.inputs if value.source in (Source.BUFFER, Source.PARAMETER)}
    for fqn, value in program.source.constants.items():
        owner, name = _owner_and_name(fqn)
        if fqn not in buffers and owner in paths and not _torch.is_literal_constant(name):
            source = Source.CONSTANT if isinstance(value, torch.Tensor) else Source.OBJECT
            yield StateEntry(owner, name, source, False, value)


def _value_of(program: FlatProgram, value: FlatInput) -> Any:
    for holder in (program.source.state_dict, program.source.constants, program.attributes):
        if value.fqn in holder and (value.persistent or holder is not program.source.state_dict):
            return holder[value.fqn]
    return program.attributes.get(value.fqn)


def _owner_and_name(fqn: str) -> tuple[ModulePath, str]:
    path = ModulePath.parse(fqn)
    return path.parent, path.name


def _key(value: Any, source: Source) -> Hashable:
    return tensor_key(value, source is not Source.PARAMETER)


def materialise(plan: StatePlan, copied: Iterable[Any]) -> dict[int, Any]:
    """What the modules will hold for each value of the program, by `id`.

    Tensors that are one stay one. Those whose memory is among that of `copied` get memory of their own.

    Args:
        plan: the state of the program.
        copied: tensors whose memory has to be copied.
    """
    memory = {storage_key(value) for value in copied}
    storages: dict[Hashable, torch.UntypedStorage] = {}
    one: dict[Hashable, Any] = {}
    held: dict[int, Any] = {}
    kinds = [(entry.value, entry.source) for entry in plan.entries]
    kinds += [(plan.tensors[value], value.source) for value in plan.literals]
    for value, source in kinds:
        key = _key(value, source)
        if key not in one:
            own = _clone(value, storages) if storage_key(value) in memory else value
            if source is Source.PARAMETER and not isinstance(own, Parameter):
                own = Parameter(own, requires_grad=own.requires_grad)
            one[key] = own
        held[id(value)] = one[key]
    return held


def _clone(value: torch.Tensor, storages: dict[Hashable, torch.UntypedStorage]) -> torch.Tensor:
    """A copy with the same layout, class and marks; copies of views share memory as the views did."""
    with torch.no_grad():
        data = value.detach().clone()
        if address(value) and not value.is_conj() and not value.is_neg():
            key = storage_key(value)
            if key not in storages:
                storages[key] = value.untyped_storage().clone()  # type: ignore[no-untyped-call]
            data = torch.empty(0, dtype=value.dtype, device=value.device).set_(
                storages[key], value.storage_offset(), value.shape, value.stride()
            )
    copy = (
        _torch.as_parameter(data, value) if isinstance(value, Parameter) else data.requires_grad_(value.requires_grad)
    )
    for mark, content in vars(value).items():
        setattr(copy, mark, content)
    return copy
