"""Nested graphs as one graph with dotted names."""

from __future__ import annotations

from typing import Any

import nir

from nir_bridge.errors import ExportError
from nir_bridge.exporting.naming import Names
from nir_bridge.flattening import FlatGraph, flatten
from nir_bridge.notes import metadata_of

_LIMIT = 100_000


def unnested(graph: nir.NIRGraph) -> nir.NIRGraph:
    """The same graph without graphs inside: their nodes have dotted names, their ports are gone.

    Raises:
        ExportError: a sum goes round in ports alone.
    """
    flat = flatten(graph, lambda *_: None)
    if len(flat.scopes) == 1:
        return graph
    inner = {at for at, node in enumerate(flat.nodes) if node.is_junction and node.scope}
    names = Names()
    called = {at: names.unique(node.label) for at, node in enumerate(flat.nodes) if at not in inner}
    edges: list[tuple[str, str]] = []
    sources = _sources(flat, inner)
    for edge in flat.edges:
        if edge.target not in inner:
            edges += [(called[source], called[edge.target]) for source in _reached(edge.source, inner, sources)]
    nodes: dict[str, Any] = {called[at]: flat.nodes[at].node for at in called}
    return nir.NIRGraph(nodes, edges, dict(metadata_of(graph, "")), type_check=False)


def _sources(flat: FlatGraph, inner: set[int]) -> dict[int, list[int]]:
    """What leads into each port."""
    found: dict[int, list[int]] = {at: [] for at in inner}
    for edge in flat.edges:
        if edge.target in inner:
            found[edge.target].append(edge.source)
    return found


def _reached(start: int, inner: set[int], sources: dict[int, list[int]]) -> list[int]:
    """The nodes whose values come out of a node or a port, each as often as it counts."""
    found, pending, steps = [], [start], 0
    while pending:
        at = pending.pop()
        steps += 1
        if at not in inner:
            found.append(at)
        elif steps < _LIMIT:
            pending += sources[at]
        else:
            raise ExportError(
                "the ports of graphs lead into themselves, or add up too often, for one graph; leave out flatten=True"
            )
    return found
