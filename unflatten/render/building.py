"""Collecting clusters, nodes and edges while a graph is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field, replace

from unflatten.paths import ModuleCall, ModulePath
from unflatten.render.picture import Cluster, Edge, Node, Picture, Shape

Piece = tuple[int, str] | None


@dataclass(eq=False, slots=True)
class Builder:
    """A picture in the making.

    Attributes:
        title: what is drawn.
        root: the cluster around all.
        describe: what is known of the module at a path: its class where the call does not tell, and details.
    """

    title: str
    root: Cluster
    describe: Callable[[ModulePath], tuple[str, tuple[tuple[str, str], ...]]]
    clusters: list[Cluster] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    edges: dict[tuple[int, int, bool], int] = field(default_factory=dict)
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _calls: dict[tuple[int, str], dict[int, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clusters.append(self.root)

    def phase(self, name: str) -> int:
        """The cluster of a phase."""
        return self._made((0, name), lambda: Cluster(0, name, phase=name))

    def call(self, parent: int, path: ModulePath, call: ModuleCall, phase: str, piece: Piece = None) -> int:
        """The cluster of a call, in one for each container between it and the module around it.

        Args:
            parent: the cluster of the module around it.
            path: of that module.
            call: the call.
            phase: the phase of its nodes.
            piece: which piece of it, and why the call was cut, where it was.
        """
        names = call.path.below(path) if call.path.is_within(path) else (str(call.path),)
        inner = path
        for name in names[:-1]:
            inner = inner / name
            parent = self._container(parent, inner, phase)
        key = (parent, call.path, call.index, piece)
        self._calls.setdefault((parent, str(call.path)), {}).setdefault(call.index)
        return self._made(key, lambda: self._of_call(parent, names[-1] if names else "", call, phase, piece))

    def _of_call(self, parent: int, name: str, call: ModuleCall, phase: str, piece: Piece) -> Cluster:
        kind, details = self.describe(call.path)
        if piece is not None:
            name, details = f"{name}, piece {piece[0] + 1}", (("cut", piece[1]), *details)
        return Cluster(parent, name, str(call.path), kind or call.type_name, call.index, phase=phase, details=details)

    def _container(self, parent: int, path: ModulePath, phase: str) -> int:
        def make() -> Cluster:
            kind, details = self.describe(path)
            return Cluster(parent, path.name, str(path), kind, phase=phase, details=details, called=False)

        return self._made((parent, path), make)

    def _made(self, key: Hashable, make: Callable[[], Cluster]) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.clusters)
            self.clusters.append(make())
        return self._numbers[key]

    def add(self, node: Node) -> int:
        """Adds a node; gives its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def join(self, source: int, target: int, delayed: bool = False) -> None:
        """Adds an edge."""
        key = (source, target, delayed)
        self.edges[key] = self.edges.get(key, 0) + 1

    def finish(self) -> Picture:
        """The picture, inputs first."""
        clusters = tuple(
            replace(cluster, calls=len(self._calls.get((cluster.parent, cluster.path), "1")))
            for cluster in self.clusters
        )
        order = sorted(range(len(self.nodes)), key=lambda at: self.nodes[at].shape is not Shape.INPUT)
        number = {old: new for new, old in enumerate(order)}
        edges = {(number[source], number[target], late): n for (source, target, late), n in self.edges.items()}
        nodes = tuple(self.nodes[at] for at in order)
        return counted(Picture(self.title, clusters, nodes, edges_of(edges)))


def edges_of(found: dict[tuple[int, int, bool], int]) -> tuple[Edge, ...]:
    """Edges from their ends, with how many times each was found."""
    return tuple(Edge(*ends, count) for ends, count in found.items())


def counted(picture: Picture) -> Picture:
    """A picture whose clusters say how many nodes they have."""
    counts = [0] * len(picture.clusters)
    for node in picture.nodes:
        counts[node.cluster] += 1
    for at in reversed(range(1, len(counts))):
        counts[picture.clusters[at].parent] += counts[at]
    clusters = (replace(cluster, nodes=count) for cluster, count in zip(picture.clusters, counts, strict=True))
    return replace(picture, clusters=tuple(clusters))


def narrowed(picture: Picture, path: str) -> Picture:
    """A picture without the frames around what is at a path, and with what is outside of it beside it."""
    if not path:
        return picture
    wanted = ModulePath.parse(path)
    own = picture.own()
    dropped = {
        at
        for at, cluster in enumerate(picture.clusters)
        if at and cluster.path and not own[at] and wanted != ModulePath.parse(cluster.path)
        if wanted.is_within(ModulePath.parse(cluster.path))
    }
    tops = [at for at in range(1, len(own)) if at not in dropped and _parent(picture, at, dropped) == 0]
    if len(tops) == 1:
        dropped |= {0}
        picture = replace(
            picture, nodes=tuple(replace(node, cluster=node.cluster or tops[0]) for node in picture.nodes)
        )
    phases = {at for at in tops if not picture.clusters[at].path and not own[at]}
    again = [at for at in range(1, len(own)) if at not in dropped and _parent(picture, at, dropped) in phases]
    if len({_parent(picture, at, dropped) for at in again}) == len(again):
        dropped |= {at for at in again if picture.clusters[at].path == path}
    return _without(picture, dropped, wanted)


def _parent(picture: Picture, at: int, dropped: Collection[int]) -> int:
    at = picture.clusters[at].parent
    while at in dropped:
        at = picture.clusters[at].parent
    return at


def _without(picture: Picture, dropped: Collection[int], wanted: ModulePath) -> Picture:
    """A picture without some of its frames."""
    number: dict[int, int] = {-1: -1}
    clusters: list[Cluster] = []
    for at, cluster in enumerate(picture.clusters):
        if at in dropped:
            number[at] = number[cluster.parent]
        else:
            number[at] = len(clusters)
            clusters.append(replace(cluster, parent=number[cluster.parent]))
    same = next((cluster for cluster in picture.clusters if cluster.path == str(wanted)), None)
    if same is not None and not clusters[0].path:
        clusters[0] = replace(clusters[0], name=wanted.name, path=same.path, type_name=same.type_name)
    nodes = tuple(replace(node, cluster=number[node.cluster]) for node in picture.nodes)
    return counted(replace(picture, clusters=tuple(clusters), nodes=nodes))


def merged(edges: Iterable[tuple[Edge, int, int]]) -> tuple[Edge, ...]:
    """Edges between the boxes that stand for their ends, each pair once, none within a box."""
    found: dict[tuple[int, int, bool], int] = {}
    for edge, source, target in edges:
        if source != target:
            key = (source, target, edge.delayed)
            found[key] = found.get(key, 0) + edge.count
    return edges_of(found)
