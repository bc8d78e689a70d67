"""What a drawing shows, as frozen values: calls of modules, nodes, and what flows between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from unflatten.errors import StructureError

Details = tuple[tuple[str, str], ...]
"""Names and values to read beside a drawing."""


class Shape(Enum):
    """What a box of a drawing stands for."""

    COMPUTE = "compute"
    INPUT = "input"
    OUTPUT = "output"
    ACCUMULATION = "sum of gradients"
    COLLECTIVE = "collective"
    MODULE = "module"


@dataclass(frozen=True, slots=True)
class Cluster:
    """One call of one module in one phase, a phase, or a run of equal things that would be too many side by side.

    Attributes:
        parent: the number of the cluster around it; that of the root is -1.
        name: the last name of the module, or what the run is called.
        path: the full name of the module.
        type_name: the dotted name of its class, empty where it is not known.
        call: which of the module's calls.
        calls: how many calls of it there are in the cluster around it.
        phase: forward, backward or recompute; empty where there are several inside.
        nodes: how many nodes it has, those of clusters inside included.
        details: what else is known.
        called: whether it is a call; a container that nothing calls has no inputs and outputs of its own.
    """

    parent: int
    name: str
    path: str = ""
    type_name: str = ""
    call: int = 0
    calls: int = 1
    phase: str = ""
    nodes: int = 0
    details: Details = ()
    called: bool = True

    @property
    def short_type(self) -> str:
        """The last name of the class."""
        return self.type_name.rpartition(".")[2]

    @property
    def title(self) -> str:
        """Name, call and class in one line."""
        call = f" (call {self.call + 1})" if self.calls > 1 else ""
        kind = self.short_type
        return f"{self.name}{call}: {kind}" if self.name and kind else (self.name or kind) + call


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph.

    Attributes:
        name: its name in the graph.
        op: the short name of what it does.
        cluster: the number of the cluster that it is in.
        value: the shape and type of what it gives, `2x8 f32`.
        shape: what kind of box it is.
        phase: forward, backward or recompute.
        target: the full name of what it calls.
        details: what else is known.
    """

    name: str
    op: str
    cluster: int
    value: str = ""
    shape: Shape = Shape.COMPUTE
    phase: str = "forward"
    target: str = ""
    details: Details = ()

    @property
    def label(self) -> str:
        """What it does and what it gives, in one line."""
        return f"{self.op} {self.value}" if self.value else self.op


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that goes from one node to another.

    Attributes:
        source, target: the numbers of the nodes.
        delayed: whether it is the value of the time step before.
        count: how many values it stands for.
    """

    source: int
    target: int
    delayed: bool = False
    count: int = 1


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing before it is drawn. Cluster 0 is all of it; every other one comes after the one around it.

    Attributes:
        title: what is drawn.
        clusters: the calls of modules.
        nodes: in an order in which they can run.
        edges: each once.
    """

    title: str
    clusters: tuple[Cluster, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = field(repr=False)

    def inside(self) -> list[list[int]]:
        """The clusters directly inside of each, in order."""
        found: list[list[int]] = [[] for _ in self.clusters]
        for at, cluster in enumerate(self.clusters):
            if cluster.parent >= 0:
                found[cluster.parent].append(at)
        return found

    def own(self) -> list[list[int]]:
        """The nodes of each cluster that are in none inside of it, in order."""
        found: list[list[int]] = [[] for _ in self.clusters]
        for at, node in enumerate(self.nodes):
            found[node.cluster].append(at)
        return found

    def around(self, cluster: int) -> Iterator[int]:
        """A cluster and all around it, innermost first."""
        while cluster >= 0:
            yield cluster
            cluster = self.clusters[cluster].parent

    def verify(self) -> None:
        """Checks that numbers refer to something, and counts are right.

        Raises:
            StructureError: they are not.
        """
        counts = [0] * len(self.clusters)
        for node in self.nodes:
            counts[node.cluster] += 1
        for at in reversed(range(len(self.clusters))):
            parent = self.clusters[at].parent
            if not -1 <= parent < at or (parent < 0) is not (at == 0):
                raise StructureError(f"cluster {at} of a picture is in cluster {parent}")
            if counts[at] != self.clusters[at].nodes:
                raise StructureError(f"cluster {at} says {self.clusters[at].nodes} nodes and has {counts[at]}")
            if parent >= 0:
                counts[parent] += counts[at]
        for edge in self.edges:
            if not (0 <= edge.source < len(self.nodes) and 0 <= edge.target < len(self.nodes)):
                raise StructureError(f"{edge} joins nodes that are not there")
