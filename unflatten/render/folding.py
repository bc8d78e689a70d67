"""Making pictures small enough: long runs of equal things put together, modules as single boxes."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import replace

from unflatten.render.building import counted, merged
from unflatten.render.picture import Cluster, Node, Picture, Shape

LIMIT = 400
"""How many boxes Graphviz lays out in a reasonable time, and anybody reads."""
RUN = 50


def grouped(picture: Picture, most: int = 3 * RUN) -> Picture:
    """A picture in which no cluster has more than `most` things directly inside: runs of them get clusters.

    A run is of things that follow one another, so that what flows between runs goes one way.
    """
    own, inside = picture.own(), picture.inside()
    if all(len(a) + len(b) <= most for a, b in zip(own, inside, strict=True)):
        return picture
    clusters: list[Cluster] = []
    nodes = list(picture.nodes)
    pending: list[tuple[int, int]] = [(0, -1)]  # clusters by their old number, with the new number of the parent
    first = _first_nodes(picture)
    while pending:
        old, parent = pending.pop()
        number = len(clusters)
        clusters.append(replace(picture.clusters[old], parent=parent))
        things = sorted([(at, at, -1) for at in own[old]] + [(first[at], -1, at) for at in inside[old]])
        sizes = _levels(len(things), most)
        holders = _runs(clusters, things, sizes, number, picture)
        inner = []
        for (_, node, cluster), holder in zip(things, holders, strict=True):
            if node >= 0:
                nodes[node] = replace(nodes[node], cluster=holder)
            else:
                inner.append((cluster, holder))
        pending.extend(reversed(inner))
    return counted(replace(picture, clusters=tuple(clusters), nodes=tuple(nodes)))


def _first_nodes(picture: Picture) -> list[int]:
    """The first node inside of each cluster, by which it is among its siblings."""
    first = [len(picture.nodes)] * len(picture.clusters)
    for at, node in enumerate(picture.nodes):
        first[node.cluster] = min(first[node.cluster], at)
    for at in reversed(range(1, len(first))):
        parent = picture.clusters[at].parent
        first[parent] = min(first[parent], first[at])
    return first


def _levels(count: int, most: int) -> list[int]:
    """How many things each run has, outermost runs first."""
    sizes: list[int] = []
    step = min(RUN, most)
    size = step
    while count > most:
        sizes.insert(0, size)
        count = -(-count // step)
        size *= step
    return sizes


def _runs(
    clusters: list[Cluster], things: list[tuple[int, int, int]], sizes: list[int], number: int, picture: Picture
) -> list[int]:
    """Makes the clusters of runs; gives the one that each thing is in."""
    holders = [number] * len(things)
    for size in sizes:
        outer = list(holders)
        for start in range(0, len(things), size):
            run = things[start : start + size]
            name = f"{_name(picture, run[0])} \u2026 {_name(picture, run[-1])}"
            around = clusters[number]
            holders[start : start + size] = [len(clusters)] * len(run)
            clusters.append(Cluster(outer[start], name, around.path, phase=around.phase))
    return holders


def _name(picture: Picture, thing: tuple[int, int, int]) -> str:
    _, node, cluster = thing
    return picture.nodes[node].name if node >= 0 else picture.clusters[cluster].name


def opened(picture: Picture, limit: int) -> frozenset[int]:
    """The clusters to draw open so that no more than `limit` boxes are seen, the outermost first."""
    own, inside = picture.own(), picture.inside()
    seen = len(own[0]) + len(inside[0])
    found = {0}
    waiting = deque(inside[0])
    while waiting:
        cluster = waiting.popleft()
        more = len(own[cluster]) + len(inside[cluster]) - 1
        if seen + more <= limit:
            seen += more
            found.add(cluster)
            waiting.extend(inside[cluster])
    return frozenset(found)


def folded(picture: Picture, limit: int | None = None) -> Picture:
    """A picture of at most about `limit` boxes: modules that do not fit are single boxes.

    Without a limit, `LIMIT` boxes; if that is not all of it, half as many where there are several phases: the lines
    between these are long, and take Graphviz long.
    """
    if limit is None:
        several = len(picture.nodes) > LIMIT and len({node.phase for node in picture.nodes}) > 1
        limit = LIMIT // 2 if several else LIMIT
    picture = grouped(picture, max(2, min(3 * RUN, limit)))
    return closed(picture, opened(picture, limit))


def closed(picture: Picture, shown: Collection[int]) -> Picture:
    """A picture in which all clusters but some are single boxes."""
    number: dict[int, int] = {}
    boxes: dict[int, int] = {}
    clusters: list[Cluster] = []
    nodes: list[Node] = []
    for at, cluster in enumerate(picture.clusters):
        if at in shown:
            number[at] = len(clusters)
            clusters.append(replace(cluster, parent=number.get(cluster.parent, -1)))
    top = _tops(picture, shown)
    place: list[int] = []
    for node in picture.nodes:
        outer = top[node.cluster]
        if outer is None:
            place.append(len(nodes))
            nodes.append(replace(node, cluster=number[node.cluster]))
            continue
        if outer not in boxes:
            boxes[outer] = len(nodes)
            nodes.append(_box(picture.clusters[outer], number[picture.clusters[outer].parent]))
        place.append(boxes[outer])
    edges = merged((edge, place[edge.source], place[edge.target]) for edge in picture.edges)
    return counted(Picture(picture.title, tuple(clusters), tuple(nodes), edges))


def _tops(picture: Picture, shown: Collection[int]) -> list[int | None]:
    """For each cluster, the outermost one around it that is a single box."""
    found: list[int | None] = []
    for at, cluster in enumerate(picture.clusters):
        outer = found[cluster.parent] if cluster.parent >= 0 else None
        found.append(outer if outer is not None else None if at in shown else at)
    return found


def _box(cluster: Cluster, parent: int) -> Node:
    nodes = f"{cluster.nodes:,} node{'s' if cluster.nodes != 1 else ''}"
    details = (("module", cluster.path), *cluster.details)
    return Node(cluster.path, cluster.title, parent, nodes, Shape.MODULE, cluster.phase, cluster.type_name, details)


def single(picture: Picture) -> Iterator[int]:
    """The clusters that hold one node and nothing else: it can be drawn without a frame around."""
    own, inside = picture.own(), picture.inside()
    for at in range(1, len(picture.clusters)):
        if len(own[at]) == 1 and not inside[at]:
            yield at
