"""Modules that are in the tree under several names.

A record tells them. Without one, a program knows names, not objects. Two names are of one module

- if strict export gave them one identity;
- if, in strict export, calls inside of the one are recorded under the other's name, and everything that the two
  hold is tied;
- or if everything that they hold is tied, a buffer among it: people tie parameters of different modules, but not
  their buffers.

A program has constants, which are no state, under one name each; so of several modules that are tied otherwise, one
may hold constants.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from unflatten.flat.tensors import tensor_key
from unflatten.paths import ROOT, ModulePath
from unflatten.reaching import reached
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
        of_state: of each path, by state alone, without constants.
        with_buffer: the paths below which there is a buffer.
        with_constant: the paths below which there is a constant.
    """

    number: dict[ModulePath, int]
    of_state: dict[ModulePath, int]
    with_buffer: frozenset[ModulePath]
    with_constant: frozenset[ModulePath]

    @staticmethod
    def of(program: ExportedProgram, paths: tuple[ModulePath, ...]) -> _Shapes:
        """Numbers every path, children before parents."""
        names = set(program.graph_signature.buffers)
        state, constants = _held(program.state_dict, names), _held(program.constants, names)
        both = {path: [*state.get(path, []), *constants.get(path, [])] for path in {**state, **constants}}
        buffers = {ModulePath.parse(name).parent for name in names}
        return _Shapes(
            _numbered(paths, both), _numbered(paths, state), _and_above(buffers) - {ROOT}, _and_above(constants)
        )

    def are_alike(self, a: ModulePath, b: ModulePath) -> bool:
        """Whether everything below two paths is one and the same."""
        return a in self.number and self.number[a] == self.number.get(b)

    def shared(self) -> Iterator[list[ModulePath]]:
        """Paths below which everything is one and the same, a buffer included."""
        groups: dict[int, list[ModulePath]] = {}
        for path, number in self.of_state.items():
            if path in self.with_buffer:
                groups.setdefault(number, []).append(path)
        for group in groups.values():
            if len({self.number[path] for path in group if path in self.with_constant}) <= 1:
                yield from [group] if len(group) > 1 else []
                continue
            exact: dict[int, list[ModulePath]] = {}
            for path in group:
                exact.setdefault(self.number[path], []).append(path)
            yield from (found for found in exact.values() if len(found) > 1)


def _held(values: Mapping[str, Any], buffers: Container[str]) -> dict[ModulePath, list[tuple[str, Hashable]]]:
    """The tensors that each module holds, by name, with what tells them apart."""
    held: dict[ModulePath, list[tuple[str, Hashable]]] = {}
    for fqn, value in values.items():
        if isinstance(value, torch.Tensor):
            path = ModulePath.parse(fqn)
            held.setdefault(path.parent, []).append((path.name, tensor_key(value, fqn in buffers)))
    return held


def _numbered(
    paths: Iterable[ModulePath], held: Mapping[ModulePath, Sequence[tuple[str, Hashable]]]
) -> dict[ModulePath, int]:
    """A number for each path: equal where they and those below them hold the same under the same names."""
    inner: dict[ModulePath, list[tuple[str, int]]] = {}
    known: dict[Hashable, int] = {}
    number: dict[ModulePath, int] = {}
    for path in sorted(paths, key=lambda path: -len(path.names)):
        number[path] = known.setdefault((tuple(held.get(path, ())), tuple(sorted(inner.get(path, ())))), len(known))
        if path != ROOT:
            inner.setdefault(path.parent, []).append((path.name, number[path]))
    return number


def _and_above(paths: Iterable[ModulePath]) -> frozenset[ModulePath]:
    return frozenset(reached(paths, lambda path: [path.parent] if path != ROOT else []))
