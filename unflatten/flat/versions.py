"""Values that stand where a model had a buffer: what its calls wrote to one, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch

from unflatten.flat.operators import aliased
from unflatten.flat.values import FlatInput, FlatNode, FlatProgram, Value
from unflatten.grouping.naming import natural
from unflatten.ownership import Ownership
from unflatten.paths import ROOT, ModuleCall, ModulePath, Scope
from unflatten.reaching import reached

_Places = Mapping[tuple[ModulePath, object, int], set[ModuleCall | None]]


@dataclass(slots=True)
class Users:
    """Who uses what in a functional program.

    Attributes:
        program: the program.
        ownership: the owners of its operators.
        names: the modules that hold each state entry.
        of: the operators that take each value.
    """

    program: FlatProgram
    ownership: Ownership
    names: Mapping[FlatInput, Iterable[ModulePath]]
    of: dict[Value, list[FlatNode]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.program.nodes:
            for value in node.operands:
                self.of.setdefault(value, []).append(node)

    def scope(self, node: FlatNode) -> Scope:
        """The calls that an operator lies in."""
        return self.ownership.scopes[node.index]

    def call(self, node: FlatNode) -> ModuleCall | None:
        """The innermost of them."""
        scope = self.scope(node)
        return scope[-1] if scope else None

    def holds(self, call: ModuleCall | None, target: FlatInput) -> bool:
        """Whether the module of a call holds a state entry, itself or inside it."""
        return call is not None and any(path.is_within(call.path) for path in self.names.get(target, ()))

    def versions(self, target: FlatInput, last: Value) -> list[FlatNode]:
        """The values that calls before the last one wrote to a buffer, oldest first."""
        places: dict[tuple[ModulePath, object, int], set[ModuleCall | None]] = {}
        for user in self.of.get(target, ()):
            call = self.call(user)
            for at, value in enumerate(user.args):
                if value is target:
                    places.setdefault((call.path if call else ROOT, user.target, at), set()).add(call)
        found: dict[FlatNode, None] = {}
        steps = self._steps_from(target)
        for node in steps:
            if (
                node is not last
                and _is_like(node, target)
                and any(self._stands_in(node, user, target, places) for user in self.of.get(node, ()))
            ):
                found[node] = None
        return sorted(found, key=lambda node: (steps[node], natural(node.name)))

    def _steps_from(self, target: FlatInput) -> dict[FlatNode, int]:
        """What is computed from a buffer, with the number of steps on the longest way there, which its users exceed."""
        found = reached(self.of.get(target, ()), lambda node: self.of.get(node, ()))
        steps: dict[FlatNode, int] = {}
        for node in sorted(found, key=lambda node: node.index):  # what a node needs stands before it
            steps[node] = 1 + max((steps[value] for value in node.operands if value in steps), default=0)
        return steps

    def _stands_in(self, node: FlatNode, user: FlatNode, target: FlatInput, places: _Places) -> bool:
        call = self.call(user)
        if call is None or call == self.call(node) or not self.holds(call, target):
            return False
        return any(
            value is node and call not in places.get((call.path, user.target, at), {call})
            for at, value in enumerate(user.args)
        )

    def takers(self, value: FlatNode, target: FlatInput) -> list[FlatNode]:
        """The operators that read the buffer instead of a value that was written to it."""
        own = self.call(value)
        return [
            user for user in self.of.get(value, ()) if self.call(user) != own and self.holds(self.call(user), target)
        ]

    def readers(self, users: Iterable[FlatNode]) -> list[FlatNode]:
        """Operators and those that look at memory through views that they made."""
        return list(reached(users, lambda node: self.of.get(node, ()) if any(aliased(node)) else ()))


def _is_like(node: FlatNode, target: FlatInput) -> bool:
    mine, other = node.meta.get("val"), target.meta.get("val")
    if not isinstance(mine, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return mine.dtype == other.dtype and mine.shape == other.shape
