"""A slow and plain simulation of NIR graphs, to compare with: dictionaries of numbers, no torch, no modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nir
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
DT = 1e-4


@dataclass(frozen=True)
class Flat:
    """Nodes by full name, and edges between full names as they are written."""

    nodes: Mapping[str, nir.NIRNode]
    edges: Sequence[tuple[str, str, tuple[str, str]]]


def flat_of(graph: nir.NIRGraph, prefix: str = "") -> Flat:
    """A graph and all inside it; the names of graphs stand before those of nodes, with a slash."""
    nodes: dict[str, nir.NIRNode] = {}
    edges: list[tuple[str, str, tuple[str, str]]] = []
    label = prefix.replace("/", ".")
    for name, node in graph.nodes.items():
        if isinstance(node, nir.NIRGraph):
            inner = flat_of(node, f"{prefix}{name}/")
            nodes.update(inner.nodes)
            edges += inner.edges
        else:
            nodes[prefix + name] = node
    for source, target in graph.edges:
        a, b = end(graph, source, nir.Output), end(graph, target, nir.Input)
        edges.append((prefix + a, prefix + b, (label + source, label + target)))
    return Flat(nodes, edges)


def end(graph: nir.NIRGraph, name: str, kind: type[nir.NIRNode]) -> str:
    """The node at an end of an edge: itself or a port of a graph."""
    if name in graph.nodes and not isinstance(graph.nodes[name], nir.NIRGraph):
        return name
    if name in graph.nodes:
        ports = [port for port, node in graph.nodes[name].nodes.items() if isinstance(node, kind)]
        return f"{name}/{ports[0]}"
    inner, _, port = name.rpartition(".")
    return f"{inner}/{port}"


def simulate(graph: nir.NIRGraph, inputs: Mapping[str, Array], delayed: set[tuple[str, str]]) -> dict[str, Array]:
    """The value of each node for each step.

    Args:
        graph: the graph, with default dynamics.
        inputs: a series for each Input.
        delayed: the edges, as they are written, that carry the value of the step before.
    """
    flat = flat_of(graph)
    order = topological(flat, delayed)
    length = len(next(iter(inputs.values())))
    state: dict[str, Any] = {}
    before: dict[str, Array] = {}
    series: dict[str, list[Array]] = {name: [] for name in flat.nodes}
    for time in range(length):
        now: dict[str, Array] = {}
        for name in order:
            total = inputs[name][time] if name in inputs else np.zeros(1)
            for source, target, label in flat.edges:
                if target == name:
                    late = label in delayed
                    total = total + (before.get(source, np.zeros(1)) if late else now[source])
            now[name] = step(name, flat.nodes[name], total, state)
            series[name].append(now[name])
        before = now
    return {name: np.stack(values) for name, values in series.items()}


def topological(flat: Flat, delayed: set[tuple[str, str]]) -> list[str]:
    """The nodes in an order in which they can run; fails where undelayed edges make a cycle."""
    left = dict.fromkeys(flat.nodes)
    order: list[str] = []
    while left:
        ready = [
            name
            for name in left
            if not any(t == name and s in left and label not in delayed for s, t, label in flat.edges)
        ]
        if not ready:
            raise ValueError(f"a cycle without delay among {sorted(left)}")
        order += ready
        for name in ready:
            del left[name]
    return order


def step(name: str, node: nir.NIRNode, x: Array, state: dict[str, Any]) -> Array:
    """One step of a node with the default dynamics."""
    if isinstance(node, nir.Affine):
        return node.weight @ x + node.bias
    if isinstance(node, nir.Linear):
        return node.weight @ x
    if isinstance(node, nir.I):
        state[name] = state.get(name, 0.0) + node.r * x
        return state[name]
    if isinstance(node, nir.LIF):
        v = state.get(name, 0.0)
        v = v + DT / node.tau * (node.v_leak - v + node.r * x)
        z = v > node.v_threshold
        state[name] = np.where(z, node.v_reset, v)
        return z.astype(np.float64)
    return x
