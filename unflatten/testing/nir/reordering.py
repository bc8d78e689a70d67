"""The same graph, written in another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
from hypothesis import strategies as st

Shuffle = Callable[[list[Any]], list[Any]]


def rearranged(graph: nir.NIRGraph, shuffle: Shuffle) -> nir.NIRGraph:
    """The same graph with nodes and edges in another order, all the way down; nodes are the same objects.

    Args:
        graph: the graph, which is not changed.
        shuffle: gives a list in another order.

    Example:
        >>> import nir, numpy as np
        >>> graph = nir.NIRGraph.from_list(nir.Scale(np.ones(1)))
        >>> list(rearranged(graph, lambda items: items[::-1]).nodes)
        ['output', 'scale', 'input']
    """
    return _rearranged(graph, shuffle, {})


def _rearranged(graph: nir.NIRGraph, shuffle: Shuffle, done: dict[int, nir.NIRGraph]) -> nir.NIRGraph:
    if id(graph) not in done:
        nodes = {
            name: _rearranged(graph.nodes[name], shuffle, done)
            if isinstance(graph.nodes[name], nir.NIRGraph)
            else graph.nodes[name]
            for name in shuffle(list(graph.nodes))
        }
        done[id(graph)] = nir.NIRGraph(nodes, shuffle(list(graph.edges)), graph.metadata, type_check=False)
    return done[id(graph)]


def reordered(graph: nir.NIRGraph) -> st.SearchStrategy[nir.NIRGraph]:
    """The graph with nodes and edges in random orders."""
    randoms = st.randoms(use_true_random=False)
    return randoms.map(lambda random: rearranged(graph, lambda items: random.sample(items, len(items))))
