"""Random NIR graphs: nested, with cycles of any shape, names with dots, edges in any order."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
from hypothesis import strategies as st

NAMES = ("a", "b", "c", "a.x", "a.y", "b.x", "c.x.y", "a_x", "d%", "for", "1", "type", "state")


def linear(gain: float) -> nir.NIRNode:
    """A weight."""
    return nir.Linear(np.array([[gain]]))


def affine(gain: float, bias: float) -> nir.NIRNode:
    """A weight and a bias."""
    return nir.Affine(np.array([[gain]]), np.array([bias]))


def lif(threshold: float) -> nir.NIRNode:
    """A neuron."""
    one = np.ones(1)
    return nir.LIF(one * 5e-4, one * 5, one * 0, one * threshold)


GAINS = st.sampled_from([-0.5, 0.25, 0.5])
NODES = st.one_of(
    st.builds(linear, GAINS),
    st.builds(affine, GAINS, st.sampled_from([0.25, -0.5, 1.0])),
    st.builds(lif, st.sampled_from([0.25, 0.5])),
    st.builds(lambda: nir.I(np.array([0.5]))),
)


@st.composite
def graphs(draw: st.DrawFn, depth: int = 2) -> nir.NIRGraph:
    """A graph of a few nodes, every one of which can reach, or be reached from, any other."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    nodes: dict[str, Any] = {}
    for name in names:
        nested = depth > 0 and draw(st.integers(0, 4)) == 0
        nodes[name] = draw(graphs(depth=depth - 1)) if nested else draw(NODES)
    sources, targets = ["in"], ["out"]
    for name, node in nodes.items():
        graph = isinstance(node, nir.NIRGraph)
        sources += [f"{name}.{port}" for port in sorted(node.outputs)] if graph else [name]
        targets += [f"{name}.{port}" for port in sorted(node.inputs)] if graph else [name]
    edges = draw(st.lists(st.tuples(st.sampled_from(sources), st.sampled_from(targets)), max_size=14))
    edges += [("in", draw(st.sampled_from(targets))), (draw(st.sampled_from(sources)), "out")]
    nodes["in"], nodes["out"] = nir.Input(np.array([1])), nir.Output(np.array([1]))
    if depth < 2 and draw(st.booleans()):
        nodes["in2"] = nir.Input(np.array([1]))
        edges.append(("in2", draw(st.sampled_from(targets))))
    if depth < 2 and draw(st.booleans()):
        nodes["out2"] = nir.Output(np.array([1]))
        edges.append((draw(st.sampled_from(sources)), "out2"))
    order = draw(st.permutations(sorted(nodes)))
    return nir.NIRGraph({name: nodes[name] for name in order}, edges, type_check=False)


def shuffled(graph: nir.NIRGraph, random: Any) -> nir.NIRGraph:
    """The same graph with nodes and edges in another order, all the way down."""
    names, edges = list(graph.nodes), list(graph.edges)
    random.shuffle(names)
    random.shuffle(edges)
    nodes = {name: graph.nodes[name] for name in names}
    inner = {name: shuffled(node, random) for name, node in nodes.items() if isinstance(node, nir.NIRGraph)}
    return nir.NIRGraph({**nodes, **inner}, edges, type_check=False)
