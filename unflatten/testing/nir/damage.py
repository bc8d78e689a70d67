"""Graphs that something is wrong with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import nir
import numpy as np
from hypothesis import strategies as st

from unflatten.testing.nir.graphs import nir_graphs

BAD_VALUES: tuple[Any, ...] = (
    np.array([np.nan]), np.array(np.inf), np.array([-1.0]), np.zeros(0), np.zeros((2, 0, 3)), np.ones((7, 5)),
    np.array(["a"]), np.array([None], dtype=object), np.array([1j]), None, "text", b"same", 10**30, -1, 0, 1.5,
    {}, [[1], [2, 3]], np.array([1e300]), np.array([1e9]), object(),
)  # fmt: skip
BAD_NAMES: tuple[Any, ...] = ("ghost", "a.ghost", "", ".", 3, None, ("a",), "input_a")
BAD_NODES: tuple[Any, ...] = (None, 3, "LIF", np.ones(2), nir.LIF)


def damaged_graphs() -> st.SearchStrategy[nir.NIRGraph]:
    """Random graphs with one or a few things wrong: fields, names, edges, types, nodes that are missing.

    Some of them still are valid.

    Example:
        >>> from hypothesis import find
        >>> find(damaged_graphs(), lambda graph: not graph.outputs).outputs
        {}
    """
    return _damaged()


@st.composite
def _damaged(draw: st.DrawFn) -> nir.NIRGraph:
    made = copy.deepcopy(draw(nir_graphs(depth=1, max_nodes=3)))
    for _ in range(draw(st.integers(1, 2))):
        if graphs := list(_graphs(made, 0)):
            draw(st.sampled_from(_DAMAGES))(draw(st.sampled_from(graphs)), draw)
    return made


def _graphs(graph: nir.NIRGraph, depth: int) -> Iterator[nir.NIRGraph]:
    """The graph and those inside it, but for what is too damaged already to be damaged again."""
    if not (isinstance(getattr(graph, "nodes", None), dict) and isinstance(getattr(graph, "edges", None), list)):
        return
    yield graph
    for node in graph.nodes.values():
        if isinstance(node, nir.NIRGraph) and depth < 3:
            yield from _graphs(node, depth + 1)


def _field(graph: nir.NIRGraph, draw: st.DrawFn) -> None:
    nodes = [node for node in graph.nodes.values() if isinstance(node, nir.NIRNode)]
    if nodes:
        node = draw(st.sampled_from(nodes))
        name = draw(st.sampled_from([item.name for item in fields(node)]))
        if draw(st.integers(0, 4)) == 4 and name in node.__dict__:
            del node.__dict__[name]
        else:
            setattr(node, name, draw(st.sampled_from(BAD_VALUES)))


def _port(graph: nir.NIRGraph, draw: st.DrawFn) -> None:
    ports = [node for node in graph.nodes.values() if isinstance(node, nir.Input | nir.Output)]
    if ports:
        node = draw(st.sampled_from(ports))
        value = draw(st.sampled_from((*BAD_VALUES, np.array([4, 4, 4, 4]))))
        node.input_type, node.output_type = {"input": value}, {"output": value}


def _missing(graph: nir.NIRGraph, draw: st.DrawFn) -> None:
    if graph.nodes:
        del graph.nodes[draw(st.sampled_from(list(graph.nodes)))]


def _edge(graph: nir.NIRGraph, draw: st.DrawFn) -> None:
    ends = [*graph.nodes, *BAD_NAMES]
    edge = (draw(st.sampled_from(ends)), draw(st.sampled_from(ends)))
    graph.edges.append(draw(st.sampled_from((edge, edge, edge, (*edge, "a"), edge[:1], None, 3))))


def _no_edges(graph: nir.NIRGraph, draw: st.DrawFn) -> None:
    graph.edges[:] = graph.edges[: draw(st.integers(0, len(graph.edges)))]


def _node(graph: nir.NIRGraph, draw: st.DrawFn) -> None:
    name = draw(st.sampled_from([*graph.nodes, *BAD_NAMES]))
    graph.nodes[name] = draw(st.sampled_from((*BAD_NODES, graph)))


_DAMAGES: tuple[Callable[[nir.NIRGraph, st.DrawFn], None], ...] = (
    _field, _field, _field, _port, _missing, _edge, _no_edges, _node,
)  # fmt: skip
