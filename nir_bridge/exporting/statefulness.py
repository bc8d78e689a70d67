"""Whether a node has a state."""

from __future__ import annotations

import nir

from nir_bridge.wiring import NEURONS


def has_state(node: nir.NIRNode) -> bool:
    """Whether a node has a state: a neuron, or a graph with one, or with a cycle."""
    if not isinstance(node, nir.NIRGraph):
        return isinstance(node, NEURONS)
    pending, seen = [node], set()
    while pending:
        graph = pending.pop()
        if id(graph) in seen:
            continue
        seen.add(id(graph))
        for inner in graph.nodes.values():
            if isinstance(inner, nir.NIRGraph):
                pending.append(inner)
            elif isinstance(inner, NEURONS):
                return True
        if _has_cycle(graph):
            return True
    return False


def _has_cycle(graph: nir.NIRGraph) -> bool:
    following: dict[str, list[str]] = {}
    waiting: dict[str, int] = dict.fromkeys(graph.nodes, 0)
    for source, target in graph.edges:
        following.setdefault(source, []).append(target)
        waiting[target] = waiting.get(target, 0) + 1
    ready = [name for name, count in waiting.items() if count == 0]
    done = 0
    while ready:
        name = ready.pop()
        done += 1
        for other in following.get(name, ()):
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    return done < len(waiting)
