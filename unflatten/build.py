"""From the analysis of a program to modules."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.export import ExportedProgram

from unflatten import _torch
from unflatten.analysis import Analysis, analyse
from unflatten.calls.arguments import Arguments
from unflatten.calls.checks import Limits
from unflatten.calls.specs import bounds_of, spec_of
from unflatten.classes import new_module
from unflatten.code.body import uses_root
from unflatten.collecting import paused_collector
from unflatten.descriptions import Description
from unflatten.errors import StructureError
from unflatten.filling import Filler
from unflatten.info import OFFERED
from unflatten.knowledge import Knowledge
from unflatten.leaves.copying import copied
from unflatten.likeness import give_attributes, live_modules, original_class
from unflatten.modules import PLACE, ROOT_KEY, Definition, UnflattenedModule
from unflatten.paths import ROOT, ModulePath
from unflatten.uncalled import make_uncalled


def unflatten(
    program: ExportedProgram,
    *,
    like: nn.Module | None = None,
    copy_state: bool = False,
    check_inputs: bool = True,
    native_leaves: bool = True,
) -> UnflattenedModule:
    """Gives an exported program its module hierarchy back.

    The result is an `nn.Module` with the original's children, parameters and buffers under the original's
    names, and with generated Python for every `forward`. It holds the program's own tensors; buffers that the
    program writes are copied, so that running the result changes neither the program nor another result.
    The program itself is not changed. Time is linear in the size of the program.

    Args:
        program: what `torch.export.export` returned, or a pass or `torch.export.load` made of that.
        like: the model that was exported, or one of the same structure. The result's modules are then of its
            classes, and have its plain attributes, by reference; hooks are left out.
        copy_state: copy every parameter, buffer and constant.
        check_inputs: compare the arguments of calls from outside with those that the program was captured
            for. Where several bodies have to be told apart, arguments are compared in any case.
        native_leaves: give modules that are provably of a class of `torch.nn` back as that class. Otherwise,
            every module that is called has generated code.

    Raises:
        NotAProgramError: something else was given.
        ProgramError: the program contradicts itself; the subclasses say how.
        UnlikeError: `like` has not the modules of the program.

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
    with paused_collector():
        analysis = analyse(program, native_leaves)
        live = live_modules(like, analysis) if like is not None else {}
        knowledge = Knowledge.of(analysis, check_inputs)
        return _Builder(analysis, _limits(program), knowledge, live).build(copy_state)


def _limits(program: ExportedProgram) -> Limits:
    return Limits(bounds_of(program.range_constraints), tuple(_torch.guard_sources(program)))


@dataclass(slots=True)
class _Builder:
    analysis: Analysis
    limits: Limits
    knowledge: Knowledge
    live: Mapping[ModulePath, nn.Module]
    definitions: dict[Hashable, Definition] = field(default_factory=dict)
    inside_genuine: set[ModulePath] = field(default_factory=set)

    def build(self, copy_state: bool) -> UnflattenedModule:
        """Makes the modules and fills them."""
        modules = self.tree()
        Filler(self.analysis, modules, self.inside_genuine).fill(copy_state)
        top = modules[ROOT]
        if not isinstance(top, UnflattenedModule):
            raise StructureError("the root has no body")
        self.add_missing(modules)
        give_attributes(modules, self.live)
        for module in dict.fromkeys(modules.values()):
            definition = getattr(type(module), "@definition", None)
            if definition is not None and uses_root(definition.bodies):
                module.__dict__[ROOT_KEY] = top
        top.__dict__[PLACE].prepare()
        return top

    def tree(self) -> dict[ModulePath, nn.Module]:
        """The modules at each path, each among its parent's children."""
        program = self.analysis.program
        names: dict[ModulePath, set[str]] = {}
        for path in program.paths:
            names.setdefault(path.parent, set()).add(path.name)
        for entry in self.analysis.state.entries:
            names.setdefault(entry.owner, set()).add(entry.name)
        form = self.analysis.form
        own = Arguments(form.names, form.in_spec, tuple(map(spec_of, form.arguments)))
        inside = self.limits.inside(own)
        modules: dict[ModulePath, nn.Module] = {}
        for path in program.paths:
            first = program.aliases.get(path, path)
            if first in self.analysis.genuine:
                self.genuine(first, modules)
            elif first not in modules:
                limits = inside if first.names else self.limits
                modules[first] = self.module(first, frozenset(names.get(first, ())), limits)
            modules[path] = modules[first]
            if path != ROOT:
                modules[path.parent]._modules[path.name] = modules[path]
        return modules

    def add_missing(self, modules: Mapping[ModulePath, nn.Module]) -> None:
        """Gives modules the children that are None, in their places."""
        for path, description in self.analysis.descriptions.items():
            module = modules[path]
            if description.children and module._modules.keys() <= set(description.children):
                inner = {name: module._modules.get(name) for name in description.children}
                module._modules.clear()
                module._modules.update(inner)

    def genuine(self, path: ModulePath, modules: dict[ModulePath, nn.Module]) -> None:
        """A module of a class of its own, with those inside it."""
        if path not in modules:
            made = copied(self.analysis.genuine[path])
            _spell_out(made, self.analysis.descriptions[path].attributes)
            for name, inner in made.named_modules():
                inside = ModulePath((*path.names, *name.split("."))) if name else path
                modules[inside] = inner
                self.inside_genuine.add(inside)

    def module(self, path: ModulePath, names: frozenset[str], limits: Limits) -> nn.Module:
        """An empty module."""
        variants = self.analysis.bodies.variants.get(path, [])
        description = self.analysis.descriptions[path]
        original = original_class(self.live.get(path))
        chains = self.analysis.chains
        if path in chains.sequential or path in chains.skipped:
            return (nn.Sequential() if path in chains.sequential else nn.Identity()).train(self.analysis.training)
        uncalled = None if variants else make_uncalled(description, original)
        if uncalled is not None:
            self.describe(uncalled, description, names)
            return uncalled
        type_name = description.type_name if original is None else f"{original.__module__}.{original.__qualname__}"
        taken = names & frozenset(OFFERED)
        key = (type_name, tuple(variant.key for variant in variants), taken, original)
        if key not in self.definitions:
            bodies = tuple(variant.body for variant in variants)
            self.definitions[key] = Definition(type_name, bodies, taken, original)
        module = new_module(self.definitions[key])
        module.__dict__[PLACE] = self.knowledge.place(path, variants, limits)
        self.describe(module, description, names)
        return module

    def describe(self, module: nn.Module, description: Description, names: frozenset[str]) -> None:
        """Gives a module the mode of the program and the plain attributes of the original."""
        module.training = self.analysis.training
        for name, value in description.attributes.items():
            if name not in names:
                module.__dict__[name] = copy.copy(value)


def _spell_out(module: nn.Module, attributes: Mapping[str, Any]) -> None:
    """Writes `(2, 2)` for `2` where the original had it so: operators don't tell the two apart."""
    for name, value in attributes.items():
        plain = module.__dict__.get(name)
        if isinstance(value, tuple) and type(plain) is int and value and all(item == plain for item in value):
            module.__dict__[name] = value
