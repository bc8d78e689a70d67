"""Edges of a graph that lead around nodes, kept in such a way that any of them can be taken back at any time.

The graph remembers which nodes are bypassed and what their users took before. What a user takes now follows from
those two alone, so that it doesn't matter in which order nodes were bypassed or put back. A copy of the graph has the
edges and not the memory.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from unflatten.errors import BypassError, UnknownPathError
from unflatten.rewrite.memory import Edges, Memory, inputs_of

_KEPT = "@rewiring"


@dataclass(slots=True)
class Rewiring:
    """What leads around nodes in one graph.

    Attributes:
        graph: the graph.
        through: each node that is bypassed, with the input that stands for it.
        edges: the arguments of their users before, in terms of the nodes that are bypassed.
        set_to: the arguments that those were set to, to see whether someone else changed them since.
        lost: the bypassed nodes of whose users someone did.
    """

    graph: fx.Graph
    through: dict[fx.Node, fx.Node] = field(default_factory=dict)
    edges: Edges = field(default_factory=dict)
    set_to: Edges = field(default_factory=dict)
    lost: set[fx.Node] = field(default_factory=set)

    @staticmethod
    def of(graph: fx.Graph) -> Rewiring:
        """That of a graph, up to date with what was changed by others."""
        found: Rewiring = graph.__dict__.setdefault(_KEPT, Rewiring(graph))
        present = set(graph.nodes)
        for node in list(found.edges):
            if node not in present or (node.args, node.kwargs) != found.set_to[node]:
                found.lost.update(inputs_of(node, found.edges) if node in present else ())
                del found.edges[node], found.set_to[node]
        found.through = {node: other for node, other in found.through.items() if {node, other} <= present}
        return found

    def chain(self, node: fx.Node) -> list[fx.Node]:
        """A node, and what stands for it, and what stands for that."""
        chain = [node]
        while chain[-1] in self.through:
            chain.append(self.through[chain[-1]])
        return chain

    def add(self, pairs: dict[fx.Node, fx.Node]) -> None:
        """Leads around nodes.

        Raises:
            BypassError: a write would be seen that was not, or the other way round; nothing is changed.
        """
        before = self.through
        self.through = {**before, **pairs}
        memory = Memory(self.graph, self.edges)
        for node in self.through:
            chain = self.chain(node)
            writer = memory.write_between(node, chain)
            if writer is not None:
                self.through = before
                raise BypassError(
                    f"can't bypass node {', '.join(repr(pair.name) for pair in pairs)}: {writer.name!r} may write the "
                    f"memory of {node.name!r}, or of what would stand for it, {chain[-1].name!r}, while it is in use"
                )
        for node in pairs:
            for user in memory.users(node):
                self.edges.setdefault(user, (user.args, user.kwargs))
        self.apply()

    def remove(self, nodes: list[fx.Node]) -> None:
        """Leads to nodes again.

        Raises:
            BypassError: one is not bypassed any more, or its users were changed; nothing is changed.
        """
        gone = [node.name for node in nodes if node not in self.through]
        if gone:
            raise BypassError(f"{', '.join(map(repr, gone))} can't be put back: back already, or out of the graph")
        lost = [node.name for node in nodes if node in self.lost]
        if lost:
            raise BypassError(f"{', '.join(map(repr, lost))} can't be put back: arguments of users were changed since")
        for node in nodes:
            del self.through[node]
        self.apply()

    def apply(self) -> None:
        """Sets the arguments of all users to what they take now."""

        def resolve(node: fx.Node) -> fx.Node:
            return self.chain(node)[-1]

        for user, (args, kwargs) in list(self.edges.items()):
            user.args, user.kwargs = fx.map_arg(args, resolve), fx.map_arg(kwargs, resolve)
            self.set_to[user] = (user.args, user.kwargs)
            if not any(node in self.through for node in inputs_of(user, self.edges)):
                del self.edges[user], self.set_to[user]

    def users(self, node: fx.Node) -> list[fx.Node]:
        """The nodes that take another, bypassed or not, in the graph's order."""
        users = {*node.users, *self.edges}
        return [user for user in self.graph.nodes if user in users and node in inputs_of(user, self.edges)]

    def arguments(self, node: fx.Node) -> tuple[Any, Any]:
        """What a node takes, bypassed nodes included."""
        return self.edges.get(node, (node.args, node.kwargs))

    def assign(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Gives a node other arguments."""
        self.edges[node] = (args, kwargs)
        self.apply()


def graph_of(where: fx.GraphModule | fx.Graph) -> fx.Graph:
    """The graph that a caller means."""
    return where.graph if isinstance(where, fx.GraphModule) else where


def node_of(graph: fx.Graph, node: fx.Node | str) -> fx.Node:
    """A node of a graph, by itself or by name.

    Raises:
        UnknownPathError: there is none.
    """
    name = node if isinstance(node, str) else node.name
    found: fx.Node | None = next((other for other in graph.nodes if other.name == name), None)
    if found is None or (isinstance(node, fx.Node) and found is not node):
        near = difflib.get_close_matches(name, [other.name for other in graph.nodes], n=3)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near and isinstance(node, str) else ""
        raise UnknownPathError(f"there is no node {name!r} in this graph.{hint}")
    return found


def recompile(where: fx.GraphModule | fx.Graph) -> None:
    """Makes a module run the graph that it now has."""
    if isinstance(where, fx.GraphModule):
        where.recompile()
