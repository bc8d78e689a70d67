"""Which edges of a flat graph carry the value of the step before.

Only edges on a cycle do. In each component the node nearest to the inputs is the head; the edges that come back to it
are delayed, and what is left is looked at again, so that edges which only lead forward never are. Delays that those of
inner loops have made needless are taken back. Nothing but the graph and the names in it decides.

Then, for `feedback="source"`, a delay moves from an edge that comes back to the neuron that drives it, past the
stateless nodes that only feed back: a recurrent layer sees the last step's spikes, and its bias acts at the first step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import nir

from nir_bridge.components import components, distances
from nir_bridge.flattening import FlatGraph

NEURONS = (nir.I, nir.IF, nir.LI, nir.LIF, nir.CubaLI, nir.CubaLIF, nir.Delay, nir.NIRGraph)
"""Nodes with a state of their own."""

_EFFORT = 40
"""How often edges are looked at, on average, before loops inside of loops inside of loops are cut in one go."""


def delayed_edges(flat: FlatGraph, feedback: str) -> frozenset[int]:
    """The edges that carry the value of the step before, by number.

    Args:
        flat: the graph.
        feedback: `"source"` or `"target"`, as in `Dynamics`.
    """
    found = _Cutter(flat).cut()
    return _Mover(flat, found).moved() if feedback == "source" else frozenset(found)


class _Cutter:
    """Finds edges whose delay leaves no cycle."""

    def __init__(self, flat: FlatGraph) -> None:
        self.flat = flat
        count = len(flat.nodes)
        self.next: list[list[int]] = [[] for _ in range(count)]
        before: list[list[int]] = [[] for _ in range(count)]
        for edge in flat.edges:
            self.next[edge.source].append(edge.target)
            before[edge.target].append(edge.source)
        root = flat.scopes[()]
        self.from_input = distances(root.inputs, self.next)
        self.to_output = distances(root.outputs, before)
        self.cuts: set[tuple[int, int]] = set()
        self.effort = _EFFORT * (len(flat.edges) + count)

    def cut(self) -> set[int]:
        pending = self.loops(range(len(self.flat.nodes)))
        loop_of = {node: number for number, members in enumerate(pending) for node in members}
        while pending and self.effort > 0:
            members = pending.pop()
            head = min(members, key=self.rank)
            inside = set(members)
            for node in members:
                if head in self.next[node]:
                    self.cuts.add((node, head))
            rest = {node: [other for other in self.next[node] if other != head and other in inside] for node in members}
            self.effort -= len(members) + sum(map(len, rest.values()))
            pending += self.loops(members, rest)
        for members in pending:
            self.cut_back_edges(members)
        self.take_back(loop_of)
        return {at for at, edge in enumerate(self.flat.edges) if (edge.source, edge.target) in self.cuts}

    def take_back(self, loop_of: dict[int, int]) -> None:
        """Takes cuts back that later ones, of loops inside of the same loop, have made needless."""
        for node, head in sorted(self.cuts):
            if node != head and self.effort > 0 and not self.leads_to(head, node, loop_of):
                self.cuts.discard((node, head))

    def leads_to(self, start: int, end: int, loop_of: dict[int, int]) -> bool:
        """Whether edges that are not cut lead from one node of a loop to another."""
        seen, pending = {start}, [start]
        while pending:
            node = pending.pop()
            if node == end:
                return True
            self.effort -= 1 + len(self.next[node])
            for other in self.next[node]:
                if other not in seen and loop_of.get(other) == loop_of[start] and (node, other) not in self.cuts:
                    seen.add(other)
                    pending.append(other)
        return False

    def loops(self, members: Sequence[int], successors: dict[int, list[int]] | None = None) -> list[list[int]]:
        """The components that hold a cycle."""
        following = self.next if successors is None else successors
        return [found for found in components(members, following) if len(found) > 1 or found[0] in following[found[0]]]

    def rank(self, node: int) -> tuple[float, bool, float, int]:
        """Smaller for a better head of a loop: near the inputs, a neuron, far from the outputs."""
        neuron = isinstance(self.flat.nodes[node].node, NEURONS)
        near, far = self.from_input.get(node, math.inf), self.to_output.get(node, math.inf)
        return near, not neuron, -far, node

    def cut_back_edges(self, members: list[int]) -> None:
        """Cuts the edges that lead back in one walk through a component, in time linear in its size."""
        inside, order = set(members), {node: self.rank(node) for node in members}
        start = min(members, key=order.__getitem__)
        following = {
            node: sorted({other for other in self.next[node] if other in inside}, key=order.__getitem__)
            for node in members
        }
        on_path, done = {start}, set()
        walk = [(start, iter(following[start]))]
        while walk:
            node, rest = walk[-1]
            for other in rest:
                if other in on_path:
                    self.cuts.add((node, other))
                elif other not in done:
                    on_path.add(other)
                    walk.append((other, iter(following[other])))
                    break
            else:
                walk.pop()
                on_path.discard(node)
                done.add(node)


class _Mover:
    """Moves delays to the outputs of neurons."""

    def __init__(self, flat: FlatGraph, delayed: set[int]) -> None:
        self.flat = flat
        self.delayed = delayed
        count = len(flat.nodes)
        self.ins: list[list[int]] = [[] for _ in range(count)]
        self.outs: list[list[int]] = [[] for _ in range(count)]
        for at, edge in enumerate(flat.edges):
            self.ins[edge.target].append(at)
            self.outs[edge.source].append(at)
        self.component: dict[int, int] = {}
        for number, members in enumerate(components(range(count), [self.targets(node) for node in range(count)])):
            self.component.update(dict.fromkeys(members, number))

    def targets(self, node: int) -> list[int]:
        return [self.flat.edges[at].target for at in self.outs[node]]

    def moved(self) -> frozenset[int]:
        """The delayed edges after all moves that end at neurons."""
        passed = self.passed()
        made = set(self.delayed)
        for group in self.groups(passed):
            edges = [at for node in group for at in self.ins[node] if self.is_inner(at)]
            entering = [at for at in edges if self.flat.edges[at].source not in group]
            leaving = [at for node in group for at in self.outs[node] if self.flat.edges[at].target not in group]
            if entering and all(self.may_take(at) for at in entering):
                made = (made - set(leaving)) | set(entering)
        return frozenset(made)

    def may_take(self, at: int) -> bool:
        """Whether a delay may move to an edge: out of a neuron, with no delay of its own."""
        return at not in self.delayed and self.is_driven(self.flat.edges[at].source)

    def passed(self) -> set[int]:
        """Stateless nodes, all of whose outputs are delayed or lead to others such."""
        open_outs = {
            node: sum(at not in self.delayed for at in self.outs[node])
            for node in range(len(self.flat.nodes))
            if self.outs[node] and not self.is_driven(node)
        }
        ready = sorted(node for node, count in open_outs.items() if count == 0)
        found: set[int] = set()
        while ready:
            node = ready.pop()
            found.add(node)
            for at in self.ins[node]:
                source = self.flat.edges[at].source
                if source in open_outs and at not in self.delayed and self.is_inner(at):
                    open_outs[source] -= 1
                    if open_outs[source] == 0:
                        ready.append(source)
        return found

    def groups(self, passed: set[int]) -> list[set[int]]:
        """The passed nodes, those that feed each other together."""
        left, groups = set(passed), []
        for first in sorted(passed):
            if first not in left:
                continue
            group, pending = set(), [first]
            left.discard(first)
            while pending:
                node = pending.pop()
                group.add(node)
                edges = [self.flat.edges[at] for at in (*self.ins[node], *self.outs[node]) if at not in self.delayed]
                for other in {edge.source for edge in edges} | {edge.target for edge in edges}:
                    if other in left:
                        left.discard(other)
                        pending.append(other)
            groups.append(group)
        return groups

    def is_inner(self, at: int) -> bool:
        """Whether an edge is on a cycle."""
        edge = self.flat.edges[at]
        return self.component[edge.source] == self.component[edge.target]

    def is_driven(self, node: int) -> bool:
        """Whether a node's value is that of a neuron: it is one, or a port behind one."""
        seen: set[int] = set()
        while self.flat.nodes[node].is_junction and len(self.ins[node]) == 1 and node not in seen:
            seen.add(node)
            node = self.flat.edges[self.ins[node][0]].source
        return isinstance(self.flat.nodes[node].node, NEURONS)
