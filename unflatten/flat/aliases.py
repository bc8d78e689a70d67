"""Modules that are in the tree under several names.

A record tells them. Without one, a program knows names, not objects. Two names are of one module

- if strict export gave them one identity;
- if, in strict export, calls inside of the one are recorded under the other's name, and everything that the two
  hold is tied;
- or if everything that they hold is tied, a buffer among it: people tie parameters of different modules, but not
  their buffers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import fx
from torch.export import ExportedProgram

from unflatten.flat.tensors import tensor_key
from unflatten.paths import ROOT, ModulePath
from unflatten.recording.record import Record
from unflatten.scopes import ScopeReader


def find_aliases(
    program: ExportedProgram, paths: tuple[ModulePath, ...], record: Record | None
) -> dict[ModulePath, ModulePath]:
    """The first path of each module, for every path that is not the first."""
    if record is not None:
        parse = ModulePath.parse
        return {parse(path): parse(module.first) for path, module in record.modules.items() if module.first is not None}
    number = {path: at for at, path in enumerate(paths)}
    shapes = _Shapes.of(program, paths)
    first: dict[ModulePath, ModulePath] = {}
    for group in (*_by_identity(program, paths, shapes), *shapes.shared()):
        ordered = sorted((first.get(path, path) for path in group), key=lambda path: number[path])
        first.update((path, ordered[0]) for path in ordered[1:] if path != ordered[0])
    return dict(_with_descendants(first, paths)) if first else {}


def _with_descendants(
    first: Mapping[ModulePath, ModulePath], paths: Iterable[ModulePath]
) -> Iterator[tuple[ModulePath, ModulePath]]:
    known: dict[ModulePath, ModulePath] = {ROOT: ROOT}
    present = set(paths)
    for path in paths:
        if path == ROOT:
            continue
        inherited = known[path.parent] / path.name
        known[path] = first.get(path, inherited if inherited in present else path)
        while known[path] in first:
            known[path] = first[known[path]]
        if known[path] != path:
            yield path, known[path]


def _by_identity(
    program: ExportedProgram, paths: tuple[ModulePath, ...], shapes: _Shapes
) -> Iterator[Iterable[ModulePath]]:
    """Paths that strict export recorded for one module object."""
    if not _has_identities(program):
        return
    reader = ScopeReader(paths, {})
    found: dict[str, dict[ModulePath, None]] = {}
    nested: dict[tuple[ModulePath, ModulePath], None] = {}
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            outer = None
            for call in reader.read(node.meta) or ():
                if call.identity:
                    found.setdefault(call.identity, {})[call.path] = None
                    if outer is not None and not call.path.is_within(outer):
                        nested[outer, call.path] = None
                outer = call.path
    yield from (list(group) for group in found.values() if len(group) > 1)
    for outer, inner in nested:
        for size in range(1, len(inner.names)):
            other = ModulePath(inner.names[:size])
            if shapes.are_alike(outer, other) and ModulePath(outer.names + inner.names[size:]) in shapes.number:
                yield outer, other


def _has_identities(program: ExportedProgram) -> bool:
    """Whether stacks tell module objects apart; a program's stacks all do, or none."""
    stacks = (node.meta.get("nn_module_stack") or {} for node in program.graph.nodes)
    keys = next((list(stack) for stack in stacks if len(stack) > 1), [])
    return any(str(key).partition("@")[0].isdigit() for key in keys)


@dataclass(frozen=True, slots=True)
class _Shapes:
    """What the modules hold, numbered: equal numbers for modules below which everything is one and the same.

    Attributes:
        number: of each path.
        with_buffer: the paths below which there is a buffer.
    """

    number: dict[ModulePath, int]
    with_buffer: frozenset[ModulePath]

    @staticmethod
    def of(program: ExportedProgram, paths: tuple[ModulePath, ...]) -> _Shapes:
        """Numbers every path, children before parents."""
        held: dict[ModulePath, list[tuple[str, Hashable]]] = {}
        buffers = set()
        names = set(program.graph_signature.buffers)
        for fqn, value in (*program.state_dict.items(), *program.constants.items()):
            if isinstance(value, torch.Tensor):
                path = ModulePath.parse(fqn)
                held.setdefault(path.parent, []).append((path.name, tensor_key(value, fqn in names)))
                if fqn in names:
                    buffers.add(path.parent)
        inner: dict[ModulePath, list[tuple[str, int]]] = {}
        known: dict[Hashable, int] = {}
        number: dict[ModulePath, int] = {}
        for path in sorted(paths, key=lambda path: -len(path.names)):
            shape = (tuple(held.get(path, ())), tuple(sorted(inner.get(path, ()))))
            number[path] = known.setdefault(shape, len(known))
            if path != ROOT:
                inner.setdefault(path.parent, []).append((path.name, number[path]))
                if path in buffers:
                    buffers.add(path.parent)
        return _Shapes(number, frozenset(buffers - {ROOT}))

    def are_alike(self, a: ModulePath, b: ModulePath) -> bool:
        """Whether everything below two paths is one and the same."""
        return a in self.number and self.number[a] == self.number.get(b)

    def shared(self) -> Iterator[list[ModulePath]]:
        """Paths below which everything is one and the same, a buffer included."""
        groups: dict[int, list[ModulePath]] = {}
        for path, number in self.number.items():
            if path in self.with_buffer:
                groups.setdefault(number, []).append(path)
        return (group for group in groups.values() if len(group) > 1)
