"""From a program to modules: each stage's value made from those of the stages before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from unflatten import _torch
from unflatten.arguments import Arguments
from unflatten.checks import Limits
from unflatten.bodies import Bodies, Variant
from unflatten.body import Apply, Body, Held, Invoke
from unflatten.calls import KnownCall, Place
from unflatten.classes import class_of
from unflatten.effects import Effects, find_effects
from unflatten.errors import StructureError
from unflatten.flat import FlatNode, FlatProgram, Modes, Source
from unflatten.drafts import Draft
from unflatten.grouping import Grouping
from unflatten.info import OFFERED
from unflatten.legality import separate
from unflatten.modes import ambient_modes
from unflatten.modules import PLACE, ROOT_KEY, Definition, UnflattenedModule
from unflatten.operators import trained_mode
from unflatten.ordering import Arrangement, arrange
from unflatten.ownership import assign_owners
from unflatten.paths import ROOT, ModulePath
from unflatten.places import Container, Namer
from unflatten.program import read_program
from unflatten.regions import Region, freeze
from unflatten.signatures import preserved_forms, root_form
from unflatten.specs import bounds_of, spec_of
from unflatten.state import StatePlan, materialise, plan_state
from unflatten.writes import restore_writes


def unflatten(program: ExportedProgram, *, copy_state: bool = False, check_inputs: bool = True) -> UnflattenedModule:
    """Gives an exported program its module hierarchy back.

    The result is an `nn.Module` with the original's children, parameters and buffers under the original's
    names, and with generated Python for every `forward`. It holds the program's own tensors; buffers that the
    program writes are copied, so that running the result changes neither the program nor another result.
    The program itself is not changed. Time is linear in the size of the program.

    Args:
        program: what `torch.export.export` returned, or a pass or `torch.export.load` made of that.
        copy_state: copy every parameter, buffer and constant.
        check_inputs: compare the arguments of calls from outside with those that the program was captured
            for. Where several bodies have to be told apart, arguments are compared in any case.

    Raises:
        NotAProgramError: something else was given.
        ProgramError: the program contradicts itself; the subclasses say how.

    Example:
        >>> import torch
        >>> from unflatten import info, unflatten
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> x = torch.ones(2, 4)
        >>> nested = unflatten(torch.export.export(model, (x,)))
        >>> torch.equal(nested(x), model(x))
        True
        >>> [name for name, _ in nested.named_modules()]
        ['', '0', '1']
    """
    return _Builder.of(program).build(copy_state, check_inputs)


@dataclass(frozen=True, slots=True)
class _Builder:
    program: FlatProgram
    effects: Effects
    state: StatePlan
    grouping: Grouping
    arranged: Mapping[Draft, Arrangement]
    ambient: Mapping[Draft, Modes]
    bodies: Bodies
    regions: Mapping[Draft, Region]
    training: bool

    @staticmethod
    def of(source: ExportedProgram) -> _Builder:
        program = read_program(source)
        state = plan_state(program)
        ownership = assign_owners(program)
        holders = {value: [owner for owner, _ in names] for value, names in state.names.items()}
        program = restore_writes(program, ownership, holders)
        ownership = ownership.extended(program)
        effects = find_effects(program, state.storage_key)
        forms = preserved_forms(program)
        grouping = Grouping.of(program, ownership, effects, state, root_form(program), forms)
        separate(grouping)
        arranged = arrange(grouping)
        ambient = ambient_modes(grouping)
        bodies = Bodies(grouping, arranged, ambient, _namer(program, state, grouping))
        bodies.write()
        regions = freeze([*grouping.drafts(), *grouping.idle], arranged, ambient)
        training = all(trained_mode(node) is not False for node in program.nodes)
        return _Builder(program, effects, state, grouping, arranged, ambient, bodies, regions, training)

    def build(self, copy_state: bool, check_inputs: bool) -> UnflattenedModule:
        """Makes the modules."""
        copied = self.state.tensors.values() if copy_state else map(self.state.tensors.get, self.effects.written)
        if copy_state:
            copied = [*copied, *(entry.value for entry in self.state.entries)]
        held = materialise(self.state, copied)
        limits = Limits(bounds_of(self.program.source.range_constraints), tuple(_torch.guard_sources(self.program.source)))
        form = root_form(self.program)
        own = Arguments(form.names, form.in_spec, tuple(map(spec_of, form.arguments)))
        modules = self._modules({True: limits, False: limits.inside(own)}, check_inputs)
        self._fill(modules, held)
        top = modules[ROOT]
        for module in dict.fromkeys(modules.values()):
            if isinstance(module, UnflattenedModule) and _looks_up(module):
                module.__dict__[ROOT_KEY] = top
        if not isinstance(top, UnflattenedModule):
            raise StructureError("the root has no body")
        top.__dict__[PLACE].prepare()
        return top

    def _modules(self, limits: Mapping[bool, Limits], check_inputs: bool) -> dict[ModulePath, nn.Module]:
        namer = self.bodies.namer
        modules: dict[ModulePath, nn.Module] = {}
        definitions: dict[Any, Definition] = {}
        names = self._names()
        for path in self.program.paths:
            first = namer.canonical(path)
            if first in modules:
                modules[path] = modules[first]
            else:
                modules[path] = self._module(first, names, definitions, limits, check_inputs)
            if path != ROOT:
                modules[path.parent]._modules[path.name] = modules[path]
        return modules

    def _names(self) -> dict[ModulePath, set[str]]:
        names: dict[ModulePath, set[str]] = {}
        for path in self.program.paths:
            names.setdefault(path.parent, set()).add(path.name)
        for entry in self.state.entries:
            names.setdefault(entry.owner, set()).add(entry.name)
        return names

    def _module(
        self,
        path: ModulePath,
        names: Mapping[ModulePath, set[str]],
        definitions: dict[Any, Definition],
        limits: Mapping[bool, Limits],
        check_inputs: bool,
    ) -> nn.Module:
        variants = self.bodies.variants.get(path, [])
        container = self.bodies.namer.containers.get(path, Container.NONE)
        if not variants and container is Container.LIST:
            return nn.ModuleList()
        if not variants and container is Container.PARAMETERS:
            return nn.ParameterList()
        bodies = tuple(variant.body for variant in variants)
        taken = frozenset(names.get(path, set()) & set(OFFERED))
        key = (self._type_name(path), tuple(variant.key for variant in variants), taken)
        if key not in definitions:
            definitions[key] = Definition(key[0], bodies, taken)
        cls = class_of(definitions[key])
        module = cls()
        module.training = self.training
        module.__dict__[PLACE] = self._place(path, variants, limits[path == ROOT], check_inputs)
        return module

    def _type_name(self, path: ModulePath) -> str:
        if path == ROOT:
            return self.program.root_type
        for variant in self.bodies.variants.get(path, []):
            for draft in variant.drafts:
                if draft.call is not None and draft.call.type_name:
                    return draft.call.type_name
        return ""

    def _place(self, path: ModulePath, variants: list[Variant], limits: Limits, check_inputs: bool) -> Place:
        drafts = [(variant, draft) for variant in variants for draft in variant.drafts]
        return Place(
            path=path,
            calls=tuple(self._known_call(variant, draft) for variant, draft in drafts),
            limits=limits,
            checks=check_inputs,
            several=len(variants) > 1,
            constants=self._constants(path),
            fixed=tuple(dict.fromkeys(_fixed(variants))),
            regions=tuple(self.regions[draft] for _, draft in drafts),
            origins=tuple(self._origins(variant.drafts[0]) for variant in variants),
        )

    def _constants(self, path: ModulePath) -> tuple[str, ...]:
        literals = self.bodies.literals.get(path, {}).values()
        return tuple(dict.fromkeys((*literals, *self.state.constants.get(path, ()))))

    def _origins(self, draft: Draft) -> tuple[FlatNode | Region, ...]:
        return tuple(
            self.regions[origin] if isinstance(origin, Draft) else origin for origin in self.bodies.origins[draft]
        )

    def _known_call(self, variant: Variant, draft: Draft) -> KnownCall:
        form = draft.form
        names = tuple(parameter.name for parameter in variant.body.parameters)
        inputs = self.arranged[draft].inputs
        if form is None:
            specs = tuple(spec_of(value) for value in inputs)
            results = tuple(spec_of(value) for value in self.arranged[draft].outputs)
            return KnownCall(draft.call, variant.index, Arguments(names, None, specs), results, False, draft.cut)
        cut = draft.cut
        if len(names) > len(form.names):
            cut = cut or f"a pass made it depend on {', '.join(names[len(form.names):])} of another module"
        arguments = Arguments(form.names, form.in_spec, tuple(map(spec_of, form.arguments)))
        return KnownCall(draft.call, variant.index, arguments, tuple(map(spec_of, form.results)), True, cut)

    def _fill(self, modules: Mapping[ModulePath, nn.Module], held: Mapping[int, Any]) -> None:
        """Puts the state where it belongs."""
        for entry in self.state.entries:
            module, value = modules[entry.owner], held[id(entry.value)]
            if entry.source is Source.PARAMETER:
                module._parameters[entry.name] = value
            elif entry.source is Source.BUFFER:
                module._buffers[entry.name] = value
                if not entry.persistent:
                    module._non_persistent_buffers_set.add(entry.name)
            else:
                module.__dict__[entry.name] = value
        for path, names in self.bodies.literals.items():
            for value, name in names.items():
                modules[path].__dict__[name] = held[id(self.state.tensors[value])]
        for path, module in modules.items():
            if isinstance(module, nn.ParameterList):
                module._size = len(module._parameters)


def _fixed(variants: Iterable[Variant]) -> Iterator[tuple[str, bool]]:
    for variant in variants:
        for draft in variant.drafts:
            for node in draft.nodes:
                mode = trained_mode(node)
                if mode is not None:
                    yield node.name, mode


def _looks_up(module: UnflattenedModule) -> bool:
    return any(_from_root(body) for body in _bodies_of(module))


def _bodies_of(module: UnflattenedModule) -> tuple[Body, ...]:
    from unflatten.info import info

    return info(module).bodies


def _from_root(body: Body) -> bool:
    return any(
        isinstance(step, Invoke) and step.module.from_root or _holds_root(step) for step in body.steps
    )


def _holds_root(step: Apply | Invoke) -> bool:
    return any(isinstance(value, Held) and value.from_root for value in step.args)


def _namer(program: FlatProgram, state: StatePlan, grouping: Grouping) -> Namer:
    """Finds the containers and shared modules, and where state is held."""
    called = {draft.path: draft for draft in grouping.drafts()}
    children: dict[ModulePath, list[str]] = {}
    for path in program.paths:
        if path != ROOT:
            children.setdefault(path.parent, []).append(path.name)
    own: dict[ModulePath, list[tuple[str, Source]]] = {}
    tables = {}
    for entry in state.entries:
        own.setdefault(entry.owner, []).append((entry.name, entry.source))
        if entry.source in (Source.PARAMETER, Source.BUFFER):
            tables[entry.owner, entry.name] = "_parameters" if entry.source is Source.PARAMETER else "_buffers"
    containers = {}
    for path in program.paths:
        if path in called or path == ROOT:
            continue
        inner, entries = children.get(path, []), own.get(path, [])
        if inner and not entries and inner == [str(at) for at in range(len(inner))]:
            containers[path] = Container.LIST
        elif entries and not inner and all(source is Source.PARAMETER for _, source in entries):
            if [name for name, _ in entries] == [str(at) for at in range(len(entries))]:
                containers[path] = Container.PARAMETERS
    return Namer(program.aliases, containers, tables)
