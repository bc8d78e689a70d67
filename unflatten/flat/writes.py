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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch

from unflatten.flat.values import FlatInput, FlatNode, FlatProgram, Value
from unflatten.flat.versions import Users
from unflatten.ownership import Ownership
from unflatten.paths import ModulePath, Scope


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
    users = Users(program, ownership, names)
    chains = {target: users.versions(target, value) for value, target in program.mutations}
    while True:
        writes = _Writes(users, chains)
        for last, target in program.mutations:
            writes.write(last, target)
        order = _topological(writes.nodes, writes.after)
        if len(order) == len(writes.nodes):
            return writes.done(order)
        # Values that can't be written in time stay values; those of a chain's end always can.
        stuck = writes.written_in(set(writes.nodes).difference(order))
        chains = {target: [] if target in stuck else values for target, values in chains.items()}


@dataclass(slots=True)
class _Writes:
    """A program while writes are added to it.

    Attributes:
        users: who uses what in it.
        chains: the intermediate values to write to each buffer, oldest first.
        nodes: its operators, with the new ones at the end.
        after: pairs of which the second has to come after the first.
        replaced: the operands that are read from a buffer instead.
        become: the buffer that holds a returned value.
    """

    users: Users
    chains: Mapping[FlatInput, list[FlatNode]]
    nodes: list[FlatNode] = field(default_factory=list)
    after: list[tuple[FlatNode, FlatNode]] = field(default_factory=list)
    replaced: dict[tuple[FlatNode, Value], FlatInput] = field(default_factory=dict)
    become: dict[Value, FlatInput] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = list(self.users.program.nodes)

    def write(self, last: Value, target: FlatInput) -> None:
        """Adds the writes to one buffer, each after those who read what it overwrites."""
        if any(last is written for _, written in self.users.program.mutations):
            # Inputs exchange values: all of them are read before any is written.
            last = self._append(torch.ops.aten.clone.default, (last,), f"{last.name}_clone", (), last.meta)
        readers = self.users.readers(self.users.of.get(target, ()))
        for value in self.chains[target]:
            readers = self._write(value, target, f"{target.name}_copy_{len(self.nodes)}", readers)
        self._write(last, target, f"{target.name}_copy", readers, final=True)
        self.become[last] = target

    def _write(
        self, value: Value, target: FlatInput, name: str, readers: list[FlatNode], final: bool = False
    ) -> list[FlatNode]:
        """Adds one write; the operators that must run before the next one."""
        original = isinstance(value, FlatNode) and value.index < len(self.users.program.nodes)
        scope = self.users.scope(value) if original and isinstance(value, FlatNode) else ()
        meta = {"val": target.meta.get("val")}
        write = self._append(torch.ops.aten.copy_.default, (target, value), name, scope, meta)
        self.after += [(reader, write) for reader in readers]
        if final or not isinstance(value, FlatNode):
            return [write]
        takers = self.users.takers(value, target)
        self.replaced.update(((taker, value), target) for taker in takers)
        following = self.users.readers(takers)
        self.after += [(write, reader) for reader in following]
        return [write, *following]

    def _append(
        self, target: object, args: tuple[Value, ...], name: str, scope: Scope, meta: Mapping[str, object]
    ) -> FlatNode:
        node = FlatNode(len(self.nodes), name, target, args, {}, args, meta, scope)  # type: ignore[arg-type]
        self.nodes.append(node)
        return node

    def written_in(self, nodes: set[FlatNode]) -> set[Value]:
        """The buffers with intermediate values whose writes are among some operators."""
        targets = {node.operands[0] for node in nodes if node.index >= len(self.users.program.nodes)}
        return {target for target in targets if isinstance(target, FlatInput) and self.chains.get(target)}

    def done(self, order: tuple[FlatNode, ...]) -> FlatProgram:
        """The program with the writes in it."""
        program = self.users.program
        outputs = tuple(
            self.become.get(value, value) if isinstance(value, FlatNode) else value for value in program.outputs
        )
        return replace(
            program,
            nodes=tuple(self.nodes),
            outputs=outputs,
            mutations=(),
            restored=frozenset(self.nodes[len(program.nodes) :]),
            order=order,
            replaced=self.replaced,
        )


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
