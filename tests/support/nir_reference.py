"""A slow and plain simulation of NIR graphs, to compare with: dictionaries of arrays, no torch, no modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import nir
import numpy as np

from nir_bridge import Dynamics
from tests.support.nir_equations import Array, State, step

Name = tuple[str, ...]
Label = tuple[str, str]
Ends = tuple[Name, Name]


@dataclass(frozen=True)
class Flat:
    """Nodes by their names and those of the graphs around them; edges with what they are called."""

    nodes: Mapping[Name, nir.NIRNode]
    edges: Sequence[tuple[Name, Name, Label]]


def flat_of(graph: nir.NIRGraph) -> Flat:
    """A graph and all inside it."""
    nodes: dict[Name, nir.NIRNode] = {}
    edges: list[tuple[Name, Name, Label]] = []
    for prefix, inner in graphs_of(graph, ()):
        nodes.update(((*prefix, name), node) for name, node in inner.nodes.items())
        for source, target in inner.edges:
            ends = (*prefix, *end(inner, source, nir.Output)), (*prefix, *end(inner, target, nir.Input))
            edges.append((*ends, (".".join((*prefix, source)), ".".join((*prefix, target)))))
    return Flat({name: node for name, node in nodes.items() if not isinstance(node, nir.NIRGraph)}, edges)


def graphs_of(graph: nir.NIRGraph, prefix: Name) -> Iterator[tuple[Name, nir.NIRGraph]]:
    yield prefix, graph
    for name, node in graph.nodes.items():
        if isinstance(node, nir.NIRGraph):
            yield from graphs_of(node, (*prefix, name))


def end(graph: nir.NIRGraph, name: str, kind: type[nir.NIRNode]) -> Name:
    """The node at an end of an edge: itself, the only port of a graph, or the port that is named."""
    node = graph.nodes.get(name)
    if isinstance(node, nir.NIRGraph):
        (port,) = [port for port, inner in node.nodes.items() if isinstance(inner, kind)]
        return name, port
    if node is not None:
        return (name,)
    (found,) = [
        (outer, port)
        for outer, inner in graph.nodes.items()
        if isinstance(inner, nir.NIRGraph)
        for port, held in inner.nodes.items()
        if isinstance(held, kind) and f"{outer}.{port}" == name
    ]
    return found


def simulate(
    graph: nir.NIRGraph, inputs: Mapping[str, Array], delayed: set[Ends], rules: Dynamics | None = None
) -> dict[Name, Array]:
    """The value of each node for each step.

    Args:
        graph: the graph.
        inputs: a series for each Input.
        delayed: the ends of the edges that carry the value of the step before.
        rules: how steps are taken.
    """
    flat, rules = flat_of(graph), rules or Dynamics()
    order = topological(flat, delayed)
    into: dict[Name, list[tuple[Name, bool]]] = {name: [] for name in flat.nodes}
    for source, target, _ in flat.edges:
        into[target].append((source, (source, target) in delayed))
    before = first_values(flat, order, into, {name: xs[0] for name, xs in inputs.items()}, rules)
    states: dict[Name, State] = {name: {} for name in flat.nodes}
    series: dict[Name, list[Array]] = {name: [] for name in flat.nodes}
    for time in range(len(next(iter(inputs.values())))):
        before = one_step(flat, order, into, ({n: xs[time] for n, xs in inputs.items()}, before, states), rules)
        for name, values in series.items():
            values.append(before[name])
    shapes = {name: np.broadcast_shapes(*(np.shape(value) for value in values)) for name, values in series.items()}
    return {
        name: np.stack([np.broadcast_to(value, shapes[name]) for value in values]) for name, values in series.items()
    }


def one_step(
    flat: Flat,
    order: Sequence[Name],
    into: Mapping[Name, Sequence[tuple[Name, bool]]],
    now: tuple[Mapping[str, Array], Mapping[Name, Array], Mapping[Name, State]],
    rules: Dynamics,
) -> dict[Name, Array]:
    """The values of all nodes in one step."""
    given, before, states = now
    before = {name: coming(states[name], value, rules) for name, value in before.items()}
    values: dict[Name, Array] = {}
    for name in order:
        total = given[name[0]] if len(name) == 1 and name[0] in given else np.zeros(())
        for source, late in into[name]:
            total = total + (before[source] if late else values[source])
        values[name] = step(flat.nodes[name], total, states[name], rules)
    return values


def coming(state: State, last: Array, rules: Dynamics) -> Array:
    """What a delayed edge brings: the last value, or, of spikes that come out late, those that come out now."""
    made = state.get("out", [])
    if "out" not in state or not rules.output_lag or not made:
        return last
    return made[-rules.output_lag] if len(made) >= rules.output_lag else np.zeros(np.shape(made[0]))


def first_values(
    flat: Flat,
    order: Sequence[Name],
    into: Mapping[Name, Sequence[tuple[Name, bool]]],
    given: Mapping[str, Array],
    rules: Dynamics,
) -> dict[Name, Array]:
    """Zeros of every node's shape, found by dry steps."""
    before: dict[Name, Array] = {name: np.zeros(()) for name in flat.nodes}
    while True:
        values = one_step(flat, order, into, (given, before, {name: {} for name in flat.nodes}), rules)
        zeros = {name: np.zeros(np.shape(value)) for name, value in values.items()}
        if all(np.shape(before[name]) == np.shape(zero) for name, zero in zeros.items()):
            return zeros
        before = zeros


def topological(flat: Flat, delayed: set[Ends]) -> list[Name]:
    """The nodes in an order in which they can run; fails where undelayed edges make a cycle."""
    left = dict.fromkeys(flat.nodes)
    order: list[Name] = []
    while left:
        waiting = {target for source, target, _ in flat.edges if source in left and (source, target) not in delayed}
        ready = [name for name in left if name not in waiting]
        if not ready:
            raise ValueError(f"a cycle without delay among {sorted(left)}")
        order += ready
        for name in ready:
            del left[name]
    return order
