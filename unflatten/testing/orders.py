"""Orders in which the nodes of a graph compute the same."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from torch import fx
from torch.export import ExportedProgram

from unflatten import _torch
from unflatten.errors import GraphOrderError

Graphs = fx.Graph | fx.GraphModule | ExportedProgram


@dataclass(frozen=True)
class Order:
    """An order of a graph's operators.

    Attributes:
        kind: how it came about.
        names: the names of the operators.
    """

    kind: str
    names: tuple[str, ...]

    def apply(self, graph: Graphs) -> None:
        """Moves the operators of a graph, a module or a program into this order.

        Raises:
            GraphOrderError: the graph has other operators, or can't run in this order; it is left as it was.
        """
        inner = graph_of(graph)
        before = dependencies(inner)
        nodes = {node.name: node for node in before}
        if sorted(nodes) != sorted(self.names):
            raise GraphOrderError("the order is of another graph: it has not the same operators")
        done: set[fx.Node] = set()
        for name in self.names:
            missing = [needed.name for needed in before[nodes[name]] if needed not in done]
            if missing:
                raise GraphOrderError(f"node {name} can't come before {missing[0]}, which it depends on")
            done.add(nodes[name])
        for name in self.names:
            inner.output_node().prepend(nodes[name])
        inner.lint()
        recompile(graph)


def graph_of(graph: Graphs) -> fx.Graph:
    """The graph of a module or program."""
    return graph if isinstance(graph, fx.Graph) else graph.graph


def recompile(graph: Graphs) -> None:
    """Makes a module or program run what its graph says now."""
    owner: Any = graph.graph_module if isinstance(graph, ExportedProgram) else graph
    if isinstance(owner, fx.GraphModule):
        owner.recompile()


def dependencies(graph: fx.Graph) -> dict[fx.Node, set[fx.Node]]:
    """What must stay before each operator: its inputs; for effects, those before it; for writes, all before them."""
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    before = {node: {needed for needed in node.all_input_nodes if needed.op != "placeholder"} for node in nodes}
    last_effect: fx.Node | None = None
    write: fx.Node | None = None
    since_write: list[fx.Node] = []
    for node in nodes:
        if write is not None:
            before[node].add(write)
        if _torch.is_ordered(node):
            if last_effect is not None:
                before[node].add(last_effect)
            last_effect = node
        since_write.append(node)
        if _torch.is_write(node):
            before[node].update(since_write[:-1])
            since_write, write = [], node
    return before


def order_by(graph: fx.Graph, kind: str, key: Callable[[fx.Node], Any]) -> Order:
    """The order in which, of the operators that may run next, the one with the smallest key does."""
    before = dependencies(graph)
    left = {node: len(needed) for node, needed in before.items()}
    after: dict[fx.Node, list[fx.Node]] = {node: [] for node in before}
    for node, needed in before.items():
        for other in needed:
            after[other].append(node)
    place = {node: at for at, node in enumerate(before)}
    ready = [(key(node), place[node], node) for node, count in left.items() if not count]
    heapq.heapify(ready)
    names = []
    while ready:
        _, _, node = heapq.heappop(ready)
        names.append(node.name)
        for other in after[node]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, (key(other), place[other], other))
    return Order(kind, tuple(names))


def early(graph: fx.Graph) -> Order:
    """Every operator as early as its inputs allow: level by level."""
    level: dict[fx.Node, int] = {}
    for node, needed in dependencies(graph).items():
        level[node] = 1 + max((level[other] for other in needed), default=-1)
    return order_by(graph, "early", level.__getitem__)


def late(graph: fx.Graph) -> Order:
    """Every operator as late as its users allow."""
    before = dependencies(graph)
    depth = dict.fromkeys(before, 0)
    for node in reversed(list(before)):
        for needed in before[node]:
            depth[needed] = max(depth[needed], depth[node] + 1)
    return order_by(graph, "late", lambda node: -depth[node])


def backwards(graph: fx.Graph) -> Order:
    """Of the operators that may run next, the one that was last."""
    place = {node: at for at, node in enumerate(graph.nodes)}
    return order_by(graph, "backwards", lambda node: -place[node])


def nasty_orders(graph: fx.Graph) -> list[Order]:
    """The orders that break most: level by level, as late as may be, and backwards."""
    return [early(graph), late(graph), backwards(graph)]


def topological_orders(graph: Graphs) -> st.SearchStrategy[Order]:
    """Orders of a graph's operators that compute the same.

    Data dependencies are kept, and the order among writes, random numbers and checks. Drawn are the nastiest orders,
    a few operators that move far, and random ones; smaller examples move less.

    Args:
        graph: the graph, or the module or program that has it; it is left as it is.

    Example:
        >>> import torch
        >>> from hypothesis import find
        >>> program = torch.export.export(torch.nn.Bilinear(2, 2, 2), (torch.ones(1, 2), torch.ones(1, 2)))
        >>> find(topological_orders(program), lambda order: True).names
        ('bilinear',)
    """
    inner = graph_of(graph)
    nodes = list(dependencies(inner))
    if len(nodes) < 2:
        return st.just(order_by(inner, "as it was", lambda _: 0))
    at = st.integers(0, len(nodes) - 1)
    moves = st.dictionaries(at, at, max_size=4).map(lambda moved: _moved(inner, nodes, moved))
    mixed = st.permutations(range(len(nodes))).map(lambda ranks: _ranked(inner, nodes, "random", ranks))
    return st.one_of(moves, st.sampled_from(nasty_orders(inner)), mixed)


def _moved(graph: fx.Graph, nodes: Sequence[fx.Node], moved: Mapping[int, int]) -> Order:
    ranks = [float(moved[at]) - 0.5 if at in moved else float(at) for at in range(len(nodes))]
    return _ranked(graph, nodes, "few moves", ranks)


def _ranked(graph: fx.Graph, nodes: Sequence[fx.Node], kind: str, ranks: Sequence[float]) -> Order:
    by_node = dict(zip(nodes, ranks, strict=True))
    return order_by(graph, kind, by_node.__getitem__)
