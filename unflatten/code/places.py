"""How code refers to modules and state: `self.layers[0].attn`, `self.weight`, whatever the names are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from unflatten.code.body import Held, Step
from unflatten.descriptions import Description
from unflatten.grouping.naming import is_plain
from unflatten.paths import ROOT, ModulePath

_RESERVED = frozenset(dir(nn.ModuleDict())) | frozenset(dir(nn.ParameterDict())) | {"self"}
"""Attributes that every module has: a child of such a name is found in its table, not as an attribute."""


@dataclass(frozen=True, slots=True)
class Namer:
    """Spells paths for code.

    Attributes:
        aliases: the first path of each module that has several.
        descriptions: what stands at each path.
        tables: for each state entry, the table of `nn.Module` that holds it.
    """

    aliases: Mapping[ModulePath, ModulePath]
    descriptions: Mapping[ModulePath, Description]
    tables: Mapping[tuple[ModulePath, str], str]

    def canonical(self, path: ModulePath) -> ModulePath:
        """The first path of the module that a path leads to."""
        return self.aliases.get(path, path)

    def module(self, here: ModulePath, there: ModulePath) -> Held:
        """A module as the code of another refers to it."""
        if there.is_within(here):
            return Held(self._steps(here, there.below(here)))
        return Held(self._steps(ROOT, there.names), from_root=True)

    def state(self, here: ModulePath, owner: ModulePath, name: str) -> Held:
        """A state entry as the code of a module around it refers to it."""
        last = self._step(owner, name, self.tables.get((owner, name), ""))
        return Held((*self._steps(here, owner.below(here)), last))

    def _steps(self, path: ModulePath, names: Iterable[str]) -> tuple[Step, ...]:
        steps = []
        for name in names:
            steps.append(self._step(path, name, "_modules"))
            path = path / name
        return tuple(steps)

    def _step(self, owner: ModulePath, name: str, table: str) -> Step:
        description = self.descriptions[owner]
        container = description.container
        if container is not None and container.is_numbered:
            return Step(name, "item")
        if container is not None and (description.certain or name in _RESERVED or not is_plain(name)):
            return Step(name, "key")
        if name in _RESERVED and table:
            return Step(name, table)
        return Step(name) if is_plain(name) else Step(name, "getattr")
