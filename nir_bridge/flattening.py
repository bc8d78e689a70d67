"""A NIR graph and all graphs inside it as one flat graph: nodes with paths, edges between them.

Nodes are in the order of their paths, edges in the order of their nodes, whatever the order in the file. The Input and
Output nodes of nested graphs stay, as places where edges add up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import nir
from torch import nn

from nir_bridge.errors import GraphError
from nir_bridge.names import escape, split_names
from nir_bridge.notes import KEY, metadata_of, ordered

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlatNode:
    """A node that is no graph.

    Attributes:
        path: of its module; of Input and Output nodes, where a module would be.
        label: its name, with the names of the graphs around it in front.
        name: its name in its graph.
        node: itself.
        scope: the path of the graph that it is in.
        made: its module, where a node map has made it already.
    """

    path: Path
    label: str
    name: str
    node: nir.NIRNode
    scope: Path
    made: nn.Module | None = None

    @property
    def is_junction(self) -> bool:
        """Whether it has no module: edges just add up here."""
        return isinstance(self.node, nir.Input | nir.Output)


@dataclass(frozen=True, slots=True)
class FlatEdge:
    """An edge between nodes, by number.

    Attributes:
        source, target: the nodes.
        label: as the graph has it, with the names of the graphs around it in front.
        scope: the path of the graph that it is in.
    """

    source: int
    target: int
    label: tuple[str, str]
    scope: Path


@dataclass(frozen=True, slots=True)
class Scope:
    """A graph.

    Attributes:
        path: where it is.
        label: its name, with the names of the graphs around it in front; empty for the root.
        graph: itself.
        inputs, outputs: its Input and Output nodes by number, in the order that its metadata notes, or of their names.
        optional: those of `inputs` that nir added, for a node that nothing feeds.
    """

    path: Path
    label: str
    graph: nir.NIRGraph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    optional: frozenset[int]


@dataclass(frozen=True, slots=True)
class FlatGraph:
    """Nodes, edges and graphs, all in a fixed order."""

    nodes: tuple[FlatNode, ...]
    edges: tuple[FlatEdge, ...]
    scopes: Mapping[Path, Scope]


Opaque = Callable[[nir.NIRNode, str], "nn.Module | None"]


def flatten(graph: nir.NIRGraph, opaque: Opaque) -> FlatGraph:
    """The flat form of a graph.

    Args:
        graph: the graph.
        opaque: for a nested graph and its label, the module that stands for it, if there is one.

    Raises:
        GraphError: an edge has no node at an end, a graph has no Input or Output, or is inside of itself.
    """
    levels = list(_levels(graph, opaque))
    found = sorted((node for level in levels for node in level.nodes), key=lambda node: node.path)
    number = {(node.scope, node.name): at for at, node in enumerate(found)}
    by_path = {level.path: level for level in levels}
    edges = [edge for level in levels for edge in level.edges(by_path, number)]
    edges.sort(key=lambda edge: (edge.target, edge.source, edge.label, edge.scope))
    scopes = {level.path: level.scope(number) for level in levels}
    root = scopes[()]
    for kind, ports in (("Input", root.inputs), ("Output", root.outputs)):
        if not ports:
            raise GraphError(f"the graph has no {kind} node; add one: nodes[{kind.lower()!r}] = nir.{kind}(...)")
    return FlatGraph(tuple(found), tuple(edges), scopes)


@dataclass(slots=True)
class _Level:
    """One graph while it is read."""

    path: Path
    label: str
    graph: nir.NIRGraph
    above: tuple[int, ...]
    paths: Mapping[str, Path]
    added_inputs: frozenset[str]
    added_outputs: frozenset[str]
    nodes: list[FlatNode] = field(default_factory=list)
    inner: dict[str, nir.NIRGraph] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What stands before names in labels."""
        return f"{self.label}." if self.path else ""

    def ports(self, kind: type[nir.NIRNode]) -> list[str]:
        """The Input or Output nodes, by name."""
        return ordered(self.graph, kind, [node.name for node in self.nodes if isinstance(node.node, kind)])

    def scope(self, number: Mapping[tuple[Path, str], int]) -> Scope:
        inputs, outputs = (
            tuple(number[self.path, name] for name in self.ports(kind)) for kind in (nir.Input, nir.Output)
        )
        optional = frozenset(number[self.path, name] for name in self.added_inputs)
        return Scope(self.path, self.label, self.graph, inputs, outputs, optional)

    def edges(self, levels: Mapping[Path, _Level], number: Mapping[tuple[Path, str], int]) -> Iterator[FlatEdge]:
        for source, target in self.graph.edges:
            if target in self.added_outputs:
                continue
            label = (self.prefix + source, self.prefix + target)
            ends = (
                self.end(source, label, nir.Output, "source", levels),
                self.end(target, label, nir.Input, "target", levels),
            )
            yield FlatEdge(number[ends[0]], number[ends[1]], label, self.path)

    def end(
        self, name: str, edge: tuple[str, str], kind: type[nir.NIRNode], side: str, levels: Mapping[Path, _Level]
    ) -> tuple[Path, str]:
        """The scope and name of the node at one end of an edge: itself, or a port of a graph."""
        if name in self.graph.nodes:
            if name not in self.inner:
                return self.path, name
            inner = levels[self.path + self.paths[name]]
            return inner.path, inner.only_port(kind, edge)
        graphs = [
            (levels[self.path + self.paths[name[:at]]], name[at + 1 :])
            for at in range(len(name) - 1, -1, -1)
            if name[at] == "." and name[:at] in self.inner
        ]
        for inner, port in graphs:
            if port in inner.ports(kind):
                return inner.path, port
        if graphs:
            inner = graphs[0][0]
            ports = ", ".join(repr(f"{inner.label}.{port}") for port in inner.ports(kind))
            raise GraphError(
                f"edge {edge}: {name!r} is no {kind.__name__} of graph {inner.label!r}; it has {ports or 'none'}"
            )
        known = ", ".join(map(repr, sorted(self.graph.nodes)[:12]))
        raise GraphError(f"edge {edge}: its {side} {name!r} is no node of the graph; there are {known}")

    def only_port(self, kind: type[nir.NIRNode], edge: tuple[str, str]) -> str:
        ports = self.ports(kind)
        certain = [port for port in ports if port not in self.added_inputs]
        if len(ports) != 1 and len(certain) == 1:
            return certain[0]
        if len(ports) != 1:
            named = ", ".join(repr(f"{self.label}.{port}") for port in ports)
            raise GraphError(
                f"edge {edge}: graph {self.label!r} has {len(ports)} {kind.__name__} nodes; "
                + (
                    f"name one of them in the edge: {named}"
                    if ports
                    else f"add one, named e.g. {kind.__name__.lower()!r}"
                )
            )
        return ports[0]


def _levels(graph: nir.NIRGraph, opaque: Opaque) -> Iterator[_Level]:
    """The graph and all graphs inside it."""
    pending: list[tuple[Path, str, nir.NIRGraph, tuple[int, ...]]] = [((), "", graph, ())]
    while pending:
        path, label, current, above = pending.pop()
        if id(current) in above:
            raise GraphError(f"graph {label!r} is inside of itself")
        level = _read(path, label, current, above)
        for name, node in current.nodes.items():
            if name in level.added_outputs:
                continue
            where, full = path + level.paths[name], level.prefix + name
            made = opaque(node, full) if isinstance(node, nir.NIRGraph) else None
            if isinstance(node, nir.NIRGraph) and made is None:
                level.inner[name] = node
                pending.append((where, full, node, (*above, id(current))))
            else:
                where = (*path, escape(name)) if isinstance(node, nir.Input | nir.Output) else where
                level.nodes.append(FlatNode(where, full, name, node, path, made))
        yield level


def _read(path: Path, label: str, graph: nir.NIRGraph, above: tuple[int, ...]) -> _Level:
    where = f"graph {label!r}" if label else "the graph"
    _check_kinds(where, getattr(graph, "nodes", None), getattr(graph, "edges", None))
    for name, node in graph.nodes.items():
        if not isinstance(name, str):
            raise GraphError(f"{where} has a node whose name is no string: {name!r}")
        if not isinstance(node, nir.NIRNode):
            raise GraphError(f"{where}: node {name!r} is a {type(node).__name__}, not a nir.NIRNode")
        metadata_of(node, f"{label}.{name}" if label else name)
    for edge in graph.edges:
        if not (isinstance(edge, tuple | list) and len(edge) == 2 and all(isinstance(end, str) for end in edge)):
            raise GraphError(f"{where}: edge {edge!r} is no pair of node names")
    outputs, inputs = _added(graph, nir.Output, "output"), _added(graph, nir.Input, "input")
    return _Level(path, label, graph, above, split_names(graph.nodes), inputs, outputs)


def _check_kinds(where: str, nodes: Any, edges: Any) -> None:
    """Checks that a graph's nodes and edges can be read at all: anything can be assigned to its fields."""
    if not isinstance(nodes, Mapping):
        raise GraphError(f"{where}: its nodes are a {type(nodes).__name__}; a dict from names to nodes is needed")
    if not isinstance(edges, Sequence | AbstractSet) or isinstance(edges, str | bytes):
        raise GraphError(f"{where}: its edges are a {type(edges).__name__}; a list of pairs of node names is needed")


def _added(graph: nir.NIRGraph, kind: type[nir.NIRNode], word: str) -> frozenset[str]:
    """The Inputs or Outputs that nir's type checks added for nodes that nothing feeds or reads.

    They are called `output_<node>`, are joined to that node alone, and it to them alone. They don't count where the
    graph has others: a probe is no output. Where all are like that, or metadata say so, they are the graph's own.
    """
    ports = {
        name for name, node in graph.nodes.items() if isinstance(node, kind) and KEY not in metadata_of(node, name)
    }
    here, there = (1, 0) if kind is nir.Output else (0, 1)
    neighbours: dict[str, list[str]] = {name: [] for name in ports}
    degree: dict[str, int] = {}
    for edge in graph.edges:
        degree[edge[there]] = degree.get(edge[there], 0) + 1
        if edge[here] in neighbours:
            neighbours[edge[here]].append(edge[there])
    added = {
        name
        for name, others in neighbours.items()
        if len(others) == 1
        and degree[others[0]] == 1
        and re.fullmatch(re.escape(f"{word}_{others[0]}") + r"(_\d+)?", name)
    }
    others_are = len(ports) < sum(isinstance(node, kind) for node in graph.nodes.values())
    return frozenset(added) if added != ports or others_are else frozenset()
