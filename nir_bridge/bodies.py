"""The code of each group: calls of its children with what their edges bring, and the new state."""

from __future__ import annotations

import keyword
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from nir_bridge.flattening import Path
from nir_bridge.grouping import Group, Grouping, Input
from nir_bridge.plan import Term, Unit
from nir_bridge.state import State
from unflatten.assemble import Apply, Body, Held, Invoke, Item, Local, Parameter, Step

OUT = "out"
"""What a node's last value is called in the state."""


def silence(x: Tensor, axes: int, shape: tuple[int, ...]) -> Tensor:
    """Zeros of a shape, with the batch axes of an input of `axes` axes."""
    return x.new_zeros((*x.shape[: x.dim() - axes], *shape))


@dataclass(frozen=True, slots=True)
class Written:
    """The code of a group.

    Attributes:
        body: the code.
        parameters: what it calls each of its inputs.
    """

    body: Body
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """What code is written from.

    Attributes:
        grouping: the groups.
        units: the nodes.
        names: what each node is called in its graph.
        stateful: the paths of groups that have a state.
        silent_axes: how many axes the input has that zeros are made like.
        reserved: what can't be reached as an attribute of a module.
    """

    grouping: Grouping
    units: Sequence[Unit]
    names: Sequence[str]
    stateful: frozenset[Path]
    silent_axes: int
    reserved: frozenset[str]


def previous_key(group: Path, unit: Unit) -> tuple[str, ...]:
    """Where a group keeps the last value of a node: its path, then the key."""
    return (".".join((*unit.path[len(group) :], OUT)),)


def write(sources: Sources, group: Group, is_root: bool) -> Written:
    """The code of a group."""
    return _Writer(sources, group, is_root).write()


@dataclass(slots=True)
class _Writer:
    sources: Sources
    group: Group
    is_root: bool
    names: list[str] = field(default_factory=list)
    steps: list[Apply | Invoke] = field(default_factory=list)
    values: dict[int, Local] = field(default_factory=dict)
    given: dict[tuple[Term, ...], Local] = field(default_factory=dict)
    first: Local = field(default_factory=lambda: Local(0))
    states: dict[Path, Local] = field(default_factory=dict)
    before: list[tuple[int, Any]] = field(default_factory=list)
    previous: dict[int, Local] = field(default_factory=dict)

    def local(self, name: str) -> Local:
        """A new value."""
        self.names.append(name)
        return Local(len(self.names) - 1)

    def write(self) -> Written:
        parameters = self.parameters()
        for unit in self.group.units:
            if isinstance(unit, int):
                self.node(unit)
            else:
                self.call_group(unit)
        result = self.result()
        stateful = self.is_root or self.group.path in self.sources.stateful
        if stateful:
            parameters.append(Parameter(self.fresh("state", parameters), tuple(self.before), optional=True))
            state = self.local("state")
            self.steps.append(Apply(state.index, State, (), self.new_state()))
            result = (result, state)
        body = Body(tuple(parameters), True, tuple(self.steps), result, tuple(self.names))
        return Written(body, tuple(parameter.name for parameter in parameters[: len(self.group.inputs)]))

    def parameters(self) -> list[Parameter]:
        """The inputs of the group as parameters."""
        found: list[Parameter] = []
        for given in self.group.inputs:
            base = "x" if len(self.group.inputs) == 1 else plain(self.sources.names[given.node])
            local = self.local(base)
            name = self.fresh(base, found)
            found.append(Parameter(name, ((local.index, ()),)))
            self.take(given, local)
        return found

    @staticmethod
    def fresh(base: str, taken: Sequence[Parameter]) -> str:
        """A name for a parameter."""
        name, count = base, 1
        while name == "self" or any(parameter.name == name for parameter in taken):
            name, count = f"{base}_{count}", count + 1
        return name

    def take(self, given: Input, local: Local) -> None:
        """Notes what a parameter holds: an Input's own value, or the sum of terms from around the group."""
        if given.is_port:
            self.values[given.node] = local
        else:
            self.given[given.terms] = local

    def node(self, number: int) -> None:
        """The value of a node."""
        unit = self.sources.units[number]
        terms = unit.terms
        if number in self.values:
            terms = tuple(term for term in terms if self.is_inside(term))  # the parameter holds the others
            if not terms:
                return
        name = plain(self.sources.names[number])
        if unit.silent is not None:
            out = self.values[number] = self.local("silent")
            self.steps.append(Apply(out.index, silence, (self.first, self.sources.silent_axes, unit.silent), {}))
            return
        own = (self.values[number],) if number in self.values else ()
        x = self.total(terms, f"{name}_in", own)
        if not unit.has_module:
            self.values[number] = x
            return
        out = self.values[number] = self.local(name)
        self.call(unit.path, (x,), unit.stateful, ((out, ()),))

    def call_group(self, path: Path) -> None:
        """The values of a group's outputs."""
        inner = self.sources.grouping.groups[path]
        names = [plain(self.sources.names[given.node]) for given in inner.inputs]
        arguments = [self.total(given.terms, f"{name}_in", ()) for name, given in zip(names, inner.inputs, strict=True)]
        prefix = plain(path[-1])
        if len(inner.outputs) == 1:
            outs: list[tuple[Local, tuple[Item, ...]]] = [(self.local(prefix), ())]
        else:
            keys = [output_name(self.sources, path, node) for node in inner.outputs]
            outs = [(self.local(f"{prefix}_{plain(key)}"), (Item(key),)) for key in keys]
        self.values.update(zip(inner.outputs, (local for local, _ in outs), strict=True))
        self.call(path, tuple(arguments), path in self.sources.stateful, tuple(outs))

    def call(self, path: Path, arguments: tuple[Any, ...], stateful: bool, outs: tuple[Any, ...]) -> None:
        """A call of a child, with its state where it has one."""
        held = self.held(path)
        if not stateful:
            used = tuple((local.index, access) for local, access in outs)
            self.steps.append(Invoke(held, None, arguments, {}, used, 0))
            return
        base = f"state_{plain(path[-1])}"
        state = self.read(path[len(self.group.path) :], base)
        new = self.states[path] = self.local(base)
        used = tuple((local.index, (Item(0), *access)) for local, access in outs)
        flat = 2 if len(outs) == 1 and not outs[0][1] else 0
        self.steps.append(Invoke(held, None, (*arguments, state), {}, (*used, (new.index, (Item(1),))), flat))

    def read(self, path: Path, name: str) -> Local:
        """A part of the old state: as items, for which a step need not look among a state's methods first."""
        local = self.local(name)
        self.before.append((local.index, tuple(map(Item, path))))
        return local

    def total(self, terms: Sequence[Term], name: str, own: tuple[Any, ...]) -> Any:
        """The sum of what edges bring, those from around the group first, then in the order of their nodes."""
        outside = tuple(term for term in terms if not self.is_inside(term))
        values = [*own, *([self.given[outside]] if outside else [])]
        values += [self.value(term) for term in terms if self.is_inside(term)]
        total = values[0]
        for value in values[1:]:
            out = self.local(name)
            self.steps.append(Apply(out.index, operator.add, (total, value), {}))
            total = out
        return total

    def is_inside(self, term: Term) -> bool:
        return term.level >= len(self.group.path)

    def value(self, term: Term) -> Local:
        """What an edge brings."""
        if not term.delayed:
            return self.values[term.source]
        if term.source not in self.previous:
            unit = self.sources.units[term.source]
            key = unit.path[len(self.group.path) :]
            path = (*key, "z") if unit.lagged else previous_key(self.group.path, unit)
            self.previous[term.source] = self.read(path, f"last_{plain(self.sources.names[term.source])}")
        return self.previous[term.source]

    def held(self, path: Path) -> Held:
        return Held(tuple(step(name, self.sources.reserved) for name in path[len(self.group.path) :]))

    def result(self) -> Any:
        """What the group returns, beside its state."""
        outputs = self.group.outputs
        if len(outputs) == 1:
            return self.values[outputs[0]]
        if not outputs:
            return None
        return {output_name(self.sources, self.group.path, node): self.values[node] for node in outputs}

    def new_state(self) -> dict[str, Any]:
        """The parts of the new state by name; containers nest."""
        depth = len(self.group.path)
        parts = {path[depth:]: value for path, value in self.states.items()}
        for node in self.group.feedback:
            unit = self.sources.units[node]
            if not unit.lagged:
                parts[previous_key(self.group.path, unit)] = self.values[node]
        return self.nested(parts)

    def nested(self, parts: dict[Path, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        deeper: dict[str, dict[Path, Any]] = {}
        for path in sorted(parts):
            if len(path) == 1:
                found[path[0]] = parts[path]
            else:
                deeper.setdefault(path[0], {})[path[1:]] = parts[path]
        for name, inner in deeper.items():
            local = self.local(f"state_{plain(name)}")
            self.steps.append(Apply(local.index, State, (), self.nested(inner)))
            found[name] = local
        return dict(sorted(found.items()))


def output_name(sources: Sources, group: Path, node: int) -> str:
    """What an output of a group is called: an Output of its own by its name in the graph, others by their path."""
    unit = sources.units[node]
    return sources.names[node] if not unit.has_module and unit.path[:-1] == group else ".".join(unit.path[len(group) :])


def plain(name: str) -> str:
    """A name as a variable's: letters of ASCII, digits, underscores."""
    text = re.sub(r"[^0-9A-Za-z_]+", "_", name)
    if not text or text[0].isdigit():
        text = f"n{text}"
    return f"{text}_" if keyword.iskeyword(text) else text


def is_attribute(name: str) -> bool:
    """Whether a name can be written behind a dot, and means itself there: Python folds some letters of Unicode."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def step(name: str, reserved: frozenset[str]) -> Step:
    """How code reaches a child."""
    if name in reserved:
        return Step(name, "_modules")
    return Step(name) if is_attribute(name) else Step(name, "getattr")


def reserved_names(base: type[nn.Module]) -> frozenset[str]:
    """The names that mean something else to every module."""
    return frozenset(dir(base)) | frozenset(dir(nn.Module())) | {"self"}
