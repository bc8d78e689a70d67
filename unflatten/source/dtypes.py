"""Which inputs must have the type that they were captured with: those whose type the program itself checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from unflatten import _torch
from unflatten.code.body import Apply, Body, Invoke, Local
from unflatten.code.nesting import Access, Item
from unflatten.source.tidying import ASSERT

Place = tuple[str, Access]
"""A leaf of an argument: the parameter, and the steps to it."""


class Checked:
    """Finds the leaves of arguments whose types are checked, by the module itself or by those that it calls."""

    def __init__(
        self, bodies_of: Callable[[nn.Module], Sequence[Body]], callee: Callable[[nn.Module, Invoke], nn.Module]
    ) -> None:
        self.bodies_of = bodies_of
        self.callee = callee
        self.known: dict[tuple[int, int], set[Place]] = {}

    def places(self, module: nn.Module, at: int) -> set[Place]:
        """The leaves of the arguments of one of a module's bodies."""
        key = id(module), at
        if key not in self.known:
            self.known[key] = set()  # where it calls itself
            self.known[key] = set(self.found(module, self.bodies_of(module)[at]))
        return self.known[key]

    def found(self, module: nn.Module, body: Body) -> Iterator[Place]:
        """The leaves, as they are met."""
        origin: dict[Any, Place] = {}
        for parameter in body.parameters:
            origin.update((Local(local), (parameter.name, access)) for local, access in parameter.leaves)
        for step in body.steps:
            if isinstance(step, Invoke):
                yield from (origin[leaf] for leaf in self.handed(module, step) if leaf in origin)
            elif step.args and isinstance(step.args[0], Local) and step.args[0] in origin:
                if step.target is ASSERT and step.kwargs.get("dtype") is not None:
                    yield origin[step.args[0]]
                elif _is_view(step):
                    origin[Local(step.out)] = origin[step.args[0]]

    def handed(self, module: nn.Module, step: Invoke) -> Iterator[Any]:
        """What a call is given whose type the callee checks."""
        callee, at = self.callee(module, step), step.pick or 0
        if at >= len(self.bodies_of(callee)):
            return
        names = [parameter.name for parameter in self.bodies_of(callee)[at].parameters]
        given = {**dict(zip(names, step.args, strict=False)), **step.kwargs}
        for name, access in self.places(callee, at):
            value = given.get(name)
            for part in access:
                value = value[part.key] if isinstance(part, Item) and isinstance(value, (tuple, list, dict)) else None
            if isinstance(value, Local):
                yield value


def _is_view(step: Apply) -> bool:
    """Whether an operator gives its first argument in another form."""
    if not isinstance(step.target, _torch.OpOverload) or not step.target._schema.returns:
        return False
    returned = step.target._schema.returns[0].alias_info
    return returned is not None and not returned.is_write
