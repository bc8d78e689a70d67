"""What has to come before what in a graph: values, writes, effects, collectives."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from unflatten import _torch
from unflatten.flat.operators import Order, facts_of
from unflatten.reaching import reached
from unflatten.rewrite.memory import Memory, has_effect
from unflatten.view.index import Index
from unflatten.view.values import Kind

_SHOWN = 8
_PURE_OF_COLLECTIVES = {"wait_tensor"}


@dataclass(eq=False, slots=True)
class Constraints:
    """The order that a graph has to keep, in linear time.

    Attributes:
        index: what is known of the graph.
        before: the nodes that each node has to come after, and why where it isn't for their value.
        after: the other way round.
    """

    index: Index
    before: dict[fx.Node, dict[fx.Node, str]] = field(default_factory=dict)
    after: dict[fx.Node, dict[fx.Node, str]] = field(default_factory=dict)

    @staticmethod
    def of(index: Index, graph: fx.Graph, *, collectives: bool = True) -> Constraints:
        """Reads the constraints off a graph; with or without the order in which collectives start."""
        found = Constraints(index, {node: {} for node in index.nodes}, {node: {} for node in index.nodes})
        for node in index.nodes:
            for other in node.all_input_nodes:
                found.add(other, node, "")
        found._keep_writes(Memory(graph, {}))
        found._keep_sequence(_has_sequence, "both have effects or draw random numbers")
        if collectives:
            found._keep_sequence(_is_collective(index), "all ranks have to start collectives in the same order")
        return found

    def add(self, first: fx.Node, second: fx.Node, why: str) -> None:
        """Keeps one node before another; a value is the first reason."""
        if first is not second and first not in self.before[second]:
            self.before[second][first] = why
            self.after[first][second] = why

    def _keep_writes(self, memory: Memory) -> None:
        writers = dict(memory.writes)
        touched = {group for groups in writers.values() for group in groups}
        if not touched:
            return
        last: dict[Any, fx.Node] = {}
        readers: dict[Any, list[fx.Node]] = {}
        for node in self.index.nodes:
            written = writers.get(node, set())
            groups = dict.fromkeys(memory.group(other) for other in (*node.all_input_nodes, node))
            used = [group for group in groups if group in touched]
            for group in sorted(used, key=written.__contains__):
                if group in last:
                    self.add(last[group], node, f"it sees what {last[group].name!r} writes")
                if group in written:
                    for reader in readers.pop(group, ()):
                        self.add(reader, node, f"it writes what {reader.name!r} reads")
                    last[group] = node
                else:
                    readers.setdefault(group, []).append(node)

    def _keep_sequence(self, belongs: Callable[[fx.Node], bool], why: str) -> None:
        last: fx.Node | None = None
        for node in self.index.nodes:
            if belongs(node):
                if last is not None:
                    self.add(last, node, why)
                last = node

    def needed(self, nodes: Iterable[fx.Node], start: int) -> set[fx.Node]:
        """Nodes and all that have to come before them, at a position or later."""
        position = self.index.position
        return {*reached(nodes, lambda node: [other for other in self.before[node] if position[other] >= start])}

    def dependent(self, nodes: Iterable[fx.Node], end: int) -> set[fx.Node]:
        """Nodes and all that have to come after them, at a position or earlier."""
        position = self.index.position
        return {*reached(nodes, lambda node: [other for other in self.after[node] if position[other] <= end])}

    def reason(self, first: Iterable[fx.Node], second: Iterable[fx.Node]) -> str:
        """The shortest chain of constraints from one of some nodes to one of others, as text."""
        goals = set(second)
        came: dict[fx.Node, fx.Node | None] = dict.fromkeys(sorted(first, key=self.index.position.__getitem__))
        pending = deque(came)
        while pending:
            node = pending.popleft()
            for other in self.after[node]:
                if other in came:
                    continue
                came[other] = node
                if other in goals:
                    return self._spell(other, came)
                pending.append(other)
        return "no constraint"

    def _spell(self, node: fx.Node, came: dict[fx.Node, fx.Node | None]) -> str:
        chain = [node]
        while (above := came[chain[-1]]) is not None:
            chain.append(above)
        chain.reverse()
        texts = [chain[0].name]
        for first, second in itertools.pairwise(chain):
            why = self.before[second][first]
            texts.append(f"{second.name} ({why})" if why else second.name)
        if len(texts) > _SHOWN:
            half = _SHOWN // 2
            texts[half:-half] = [f"... {len(texts) - 2 * half} more ..."]
        return " -> ".join(texts)


def _has_sequence(node: fx.Node) -> bool:
    if node.op == "output":
        return False
    if isinstance(node.target, _torch.OpOverload):
        return has_effect(node) or facts_of(node.target).random
    return isinstance(node.target, _torch.HigherOrderOperator) and facts_of(node.target).order is Order.SEQUENCE


def _is_collective(index: Index) -> Callable[[fx.Node], bool]:
    def holds(node: fx.Node) -> bool:
        name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
        return index.owners[node].kind is Kind.COLLECTIVE and name not in _PURE_OF_COLLECTIVES

    return holds


def is_wait(node: fx.Node) -> bool:
    """Whether a node waits for a collective."""
    return node.target is torch.ops._c10d_functional.wait_tensor.default
