"""Putting the state of a program into the modules that were made for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from unflatten.analysis import Analysis
from unflatten.flat.values import Source
from unflatten.leaves.copying import settle, writes_buffers
from unflatten.paths import ModulePath
from unflatten.state import StateEntry, materialise
from unflatten.uncalled import finish_container


@dataclass(frozen=True, slots=True)
class Filler:
    """Fills modules.

    Attributes:
        analysis: what is known of the program.
        modules: the module at each path.
        inside_genuine: the paths of genuine modules and of what is inside them.
    """

    analysis: Analysis
    modules: Mapping[ModulePath, nn.Module]
    inside_genuine: Collection[ModulePath]

    def is_written(self, entry: StateEntry) -> bool:
        """Whether a genuine module may write an entry in one of its modes, whatever the program does."""
        is_buffer = entry.source is Source.BUFFER and entry.owner in self.inside_genuine
        return is_buffer and writes_buffers(self.modules[entry.owner])

    def fill(self, copy_state: bool) -> None:
        """Puts the state where it belongs."""
        state = self.analysis.state
        held = materialise(state, self.copied(copy_state))
        for entry in state.entries:
            self.put(self.modules[entry.owner], entry, held[id(entry.value)])
        for path, names in self.analysis.bodies.literals.items():
            for literal, name in names.items():
                self.modules[path].__dict__[name] = held[id(state.tensors[literal])]
        for path in self.analysis.genuine:
            settle(self.modules[path])
        for module in self.modules.values():
            finish_container(module)

    def copied(self, copy_state: bool) -> list[Any]:
        """The tensors that the result must not share with the program."""
        state = self.analysis.state
        if copy_state:
            return [*state.tensors.values(), *(entry.value for entry in state.entries)]
        written: list[Any] = [state.tensors.get(value) for value in self.analysis.effects.written]
        return written + [entry.value for entry in state.entries if self.is_written(entry)]

    def put(self, module: nn.Module, entry: StateEntry, value: Any) -> None:
        """Has a module hold an entry."""
        if entry.owner in self.inside_genuine:
            setattr(module, entry.name, value)  # which its class may have to know of
        elif entry.source is Source.PARAMETER:
            module._parameters[entry.name] = value
        elif entry.source is Source.BUFFER:
            module._buffers[entry.name] = value
            if not entry.persistent:
                module._non_persistent_buffers_set.add(entry.name)
        else:
            module.__dict__[entry.name] = value
