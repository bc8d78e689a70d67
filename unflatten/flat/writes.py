"""Functionalised writes put back in place.

A functional program returns the new value of every buffer and input that the model wrote. Here that becomes a
write again, `buffer.copy_(value)`, in the call that computed the value. Where several calls of a module write one
buffer, the program hands each new value on to the next call, which the model never did: it read the buffer. So
intermediate values are written as well, and later calls of modules that hold the buffer read it.

That is done where it is legal: whoever reads a buffer must be able to do so before the next write. A value that
stands where an earlier call had the buffer itself is taken to be what was written.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch

from unflatten.flat.operators import aliased
from unflatten.flat.values import FlatInput, FlatNode, FlatProgram, Value
from unflatten.ownership import Ownership
from unflatten.paths import ROOT, ModuleCall, ModulePath, Scope


def restore_writes(
    program: FlatProgram, ownership: Ownership, names: Mapping[FlatInput, Iterable[ModulePath]]
) -> FlatProgram:
    """Gives a functionalised program its writes back. Linear in the size of the program.

    Args:
        program: the program.
        ownership: the owners of its operators.
        names: the modules that hold each state entry.
    """
    if not program.mutations:
        return program
    restorer = _Restorer(program, ownership, names)
    chains = {target: restorer.versions(target, value) for value, target in program.mutations}
    while True:
        restored, stuck = restorer.restore(chains)
        if restored is not None:
            return restored
        # Values that can't be written in time stay values; those of a chain's end always can.
        chains = {target: [] if target in stuck else values for target, values in chains.items()}


@dataclass(slots=True)
class _Restorer:
    program: FlatProgram
    ownership: Ownership
    names: Mapping[FlatInput, Iterable[ModulePath]]
    users: dict[Value, list[FlatNode]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.program.nodes:
            for value in node.operands:
                self.users.setdefault(value, []).append(node)

    def scope(self, node: FlatNode) -> Scope:
        return self.ownership.scopes[node.index]

    def call(self, node: FlatNode) -> ModuleCall | None:
        scope = self.scope(node)
        return scope[-1] if scope else None

    def holds(self, call: ModuleCall | None, target: FlatInput) -> bool:
        """Whether the module of a call holds a state entry, itself or inside it."""
        return call is not None and any(path.is_within(call.path) for path in self.names.get(target, ()))

    def versions(self, target: FlatInput, last: Value) -> list[FlatNode]:
        """The values that calls before the last one wrote to a buffer, oldest first."""
        places: dict[tuple[ModulePath, object, int], set[ModuleCall | None]] = {}
        for user in self.users.get(target, ()):
            call = self.call(user)
            for at, value in enumerate(user.args):
                if value is target:
                    places.setdefault((call.path if call else ROOT, user.target, at), set()).add(call)
        found: dict[FlatNode, None] = {}
        for node in self._computed_from(target):
            if (
                node is not last
                and self._is_like(node, target)
                and any(self._stands_in(node, user, target, places) for user in self.users.get(node, ()))
            ):
                found[node] = None
        return sorted(found, key=lambda node: node.index)

    def _computed_from(self, target: FlatInput) -> Iterator[FlatNode]:
        seen: set[FlatNode] = set()
        pending = list(self.users.get(target, ()))
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                yield node
                pending.extend(self.users.get(node, ()))

    @staticmethod
    def _is_like(node: FlatNode, target: FlatInput) -> bool:
        mine, other = node.meta.get("val"), target.meta.get("val")
        if not isinstance(mine, torch.Tensor) or not isinstance(other, torch.Tensor):
            return False
        return mine.dtype == other.dtype and mine.shape == other.shape

    def _stands_in(
        self,
        node: FlatNode,
        user: FlatNode,
        target: FlatInput,
        places: Mapping[tuple[ModulePath, object, int], set[ModuleCall | None]],
    ) -> bool:
        call = self.call(user)
        if call is None or call == self.call(node) or not self.holds(call, target):
            return False
        return any(
            value is node and call not in places.get((call.path, user.target, at), {call})
            for at, value in enumerate(user.args)
        )

    def restore(self, chains: Mapping[FlatInput, list[FlatNode]]) -> tuple[FlatProgram | None, set[FlatInput]]:
        """The program with writes, or the buffers whose intermediate values can't be written."""
        nodes = list(self.program.nodes)
        after: list[tuple[FlatNode, FlatNode]] = []
        replaced: dict[tuple[FlatNode, Value], FlatInput] = {}
        become: dict[Value, FlatInput] = {}
        targets = {target for _, target in self.program.mutations}
        for last, target in self.program.mutations:
            if last in targets:  # inputs that exchange values: all are read before any is written
                last = self._append(nodes, torch.ops.aten.clone.default, (last,), f"{last.name}_clone", (), last.meta)
            readers = list(self._readers(self.users.get(target, ())))
            for value in (*chains[target], last):
                scope = (
                    self.scope(value) if isinstance(value, FlatNode) and value.index < len(self.program.nodes) else ()
                )
                name = f"{target.name}_copy_{len(nodes)}" if value is not last else f"{target.name}_copy"
                meta = {"val": target.meta.get("val")}
                write = self._append(nodes, torch.ops.aten.copy_.default, (target, value), name, scope, meta)
                after += [(reader, write) for reader in readers]
                takers = [] if value is last else self._takers(value, target)
                replaced.update(((taker, value), target) for taker in takers)
                readers = [write, *self._readers(takers)]
                after += [(write, reader) for reader in readers[1:]]
            become[last] = target
        order = _topological(nodes, after)
        if len(order) < len(nodes):
            stuck = {target for _, target in replaced.items() for target in (target,) if chains[target]}
            return None, stuck
        program = self.program
        outputs = tuple(become.get(value, value) if isinstance(value, FlatNode) else value for value in program.outputs)
        restored = frozenset(nodes[len(program.nodes) :])
        done = replace(
            program,
            nodes=tuple(nodes),
            outputs=outputs,
            mutations=(),
            restored=restored,
            order=order,
            replaced=replaced,
        )
        return done, set()

    def _takers(self, value: FlatNode, target: FlatInput) -> list[FlatNode]:
        """The operators that read the buffer instead of a value that was written to it."""
        own = self.call(value)
        return [
            user for user in self.users.get(value, ()) if self.call(user) != own and self.holds(self.call(user), target)
        ]

    def _readers(self, users: Iterable[FlatNode]) -> Iterator[FlatNode]:
        """Operators and those that look at memory through views that they made."""
        seen: set[FlatNode] = set()
        pending = list(users)
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                yield node
                pending.extend(user for user in self.users.get(node, ()) if any(aliased(node)))

    @staticmethod
    def _append(
        nodes: list[FlatNode],
        target: object,
        args: tuple[Value, ...],
        name: str,
        scope: Scope,
        meta: Mapping[str, object],
    ) -> FlatNode:
        node = FlatNode(len(nodes), name, target, args, {}, args, meta, scope)  # type: ignore[arg-type]
        nodes.append(node)
        return node


def _topological(nodes: list[FlatNode], after: Iterable[tuple[FlatNode, FlatNode]]) -> tuple[FlatNode, ...]:
    """An order in which everything comes after what it needs, as close to the given one as that allows."""
    followers: dict[FlatNode, list[FlatNode]] = {}
    waiting = dict.fromkeys(nodes, 0)
    edges = {(value, node): None for node in nodes for value in node.operands if isinstance(value, FlatNode)}
    edges.update(dict.fromkeys((a, b) for a, b in after if a is not b))
    for earlier, later in edges:
        followers.setdefault(earlier, []).append(later)
        waiting[later] += 1
    ready = [(node.index, node) for node, count in waiting.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node)
        for later in followers.get(node, ()):
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (later.index, later))
    return tuple(order)
