"""What kind of module stands at each path: its class, and whether it only holds others.

A record says so. Without one, the calls tell the classes of the modules that are called; what is never called
is told by the names of what it holds, and acts as a container.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from unflatten.flat.values import FlatProgram, Source
from unflatten.paths import ROOT, ModuleCall, ModulePath
from unflatten.recording.encoding import constant
from unflatten.recording.record import Record
from unflatten.state import StateEntry

IDENTITY = "torch.nn.modules.linear.Identity"
"""What a module without operators, state and children is taken for."""


class Container(Enum):
    """A module that only holds others, or parameters. The value is its class in torch."""

    LIST = "torch.nn.modules.container.ModuleList"
    DICT = "torch.nn.modules.container.ModuleDict"
    SEQUENTIAL = "torch.nn.modules.container.Sequential"
    PARAMETERS = "torch.nn.modules.container.ParameterList"
    PARAMETER_DICT = "torch.nn.modules.container.ParameterDict"

    @property
    def is_numbered(self) -> bool:
        """Whether what it holds goes by number."""
        return self not in (Container.DICT, Container.PARAMETER_DICT)


@dataclass(frozen=True, slots=True)
class Description:
    """One module.

    Attributes:
        type_name: the dotted name of its class, empty where nothing tells.
        container: what it is where it only holds others and is never called.
        certain: whether a record says so.
        text: what `extra_repr()` says of the original, None where nothing tells.
        attributes: its plain attributes.
        whole: whether these, its state and its children are all that it has.
        children: the names of its children in their order, where some of them are None.
        shown: how it prints, where that is known and not a matter of its children.
    """

    type_name: str = ""
    container: Container | None = None
    certain: bool = False
    text: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    children: Sequence[str] = ()
    shown: str | None = None


def describe(
    program: FlatProgram, entries: Iterable[StateEntry], calls: Iterable[ModuleCall]
) -> dict[ModulePath, Description]:
    """Describes every module of a program.

    Args:
        program: the program.
        entries: what its modules hold.
        calls: the calls that it makes.
    """
    record = program.record
    types: dict[ModulePath, str] = {ROOT: program.root_type}
    for call in calls:
        types[call.path] = types.get(call.path) or call.type_name
    holds = _Holdings.of(program, entries)
    found: dict[ModulePath, Description] = {}
    for path in program.paths:
        first = program.aliases.get(path, path)
        if first in found:
            found[path] = found[first]
        elif record is not None and str(path) in record.modules:
            found[path] = _recorded(record, path, is_called=path in types)
        elif path in types:
            found[path] = Description(types[path])
        else:
            found[path] = holds.guess(path)
    return found


def _recorded(record: Record, path: ModulePath, is_called: bool) -> Description:
    module = record.modules[str(path)]
    kinds = {kind.value: kind for kind in Container}
    container = None if is_called else kinds.get(module.type)
    attributes = {name: constant(value) for name, value in module.attributes.items()}
    return Description(
        type_name=module.type,
        container=container,
        certain=True,
        text=module.text,
        attributes=attributes,
        whole=module.whole,
        children=module.children,
        shown=module.shown,
    )


@dataclass(frozen=True, slots=True)
class _Holdings:
    """What the modules hold, by name.

    Attributes:
        children: the names of the modules inside each.
        state: the parameters, buffers and constants of each.
    """

    children: Mapping[ModulePath, list[str]]
    state: Mapping[ModulePath, dict[str, StateEntry]]

    @staticmethod
    def of(program: FlatProgram, entries: Iterable[StateEntry]) -> _Holdings:
        children: dict[ModulePath, list[str]] = {}
        state: dict[ModulePath, dict[str, StateEntry]] = {}
        for path in program.paths:
            if path != ROOT:
                children.setdefault(path.parent, []).append(path.name)
        for entry in entries:
            state.setdefault(entry.owner, {})[entry.name] = entry
        return _Holdings(children, state)

    def guess(self, path: ModulePath) -> Description:
        """What a module that is never called most likely is, by what it holds."""
        inner, own = self.children.get(path, ()), self.state.get(path, {})
        kind = None
        if inner and not own:
            kind = Container.LIST if _are_numbers(inner) else Container.DICT
        elif own and not inner and all(entry.source is Source.PARAMETER for entry in own.values()):
            if _is_linear(own):
                return Description("torch.nn.modules.linear.Linear")
            if not own.keys() & {"weight", "bias"}:
                kind = Container.PARAMETERS if _are_numbers(own) else Container.PARAMETER_DICT
        if not inner and not own:
            return Description(IDENTITY)
        return Description(kind.value if kind else "", kind)


def _are_numbers(names: Collection[str]) -> bool:
    return list(names) == [str(at) for at in range(len(names))]


def _is_linear(held: Mapping[str, StateEntry]) -> bool:
    """Whether parameters are those of a linear layer with a bias; nothing else in torch has such."""
    if held.keys() != {"weight", "bias"}:
        return False
    weight, bias = held["weight"].value, held["bias"].value
    tensors = isinstance(weight, torch.Tensor) and isinstance(bias, torch.Tensor)
    return tensors and weight.dim() == 2 and bias.shape == weight.shape[:1]
