"""Whether a graph's cycles carry values as old as those that the model computes with.

NIR says nothing about delays: which edges of a cycle carry the value of the step before follows from the graph. A delay
may sit elsewhere than in the model, on another side of nodes that only pass on, as long as all paths add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import nir
import numpy as np

from nir_bridge.flattening import FlatGraph, FlatNode, flatten
from nir_bridge.wiring import NEURONS, delayed_edges


@dataclass(frozen=True, slots=True)
class Delays:
    """How old the values are that edges carry in a model.

    Attributes:
        lags: of each edge, in steps, by the labels of its ends.
        shifts: layers that have a constant, and how many steps later than in the model they have to act.
    """

    lags: Mapping[tuple[str, str], set[int]] = field(default_factory=dict)
    shifts: Mapping[str, int] = field(default_factory=dict)

    def fit(self, graph: nir.NIRGraph, feedback: str) -> str:
        """What stands in the way of running a graph by a rule for feedback; empty where nothing does.

        Args:
            graph: the graph.
            feedback: as in `Dynamics`.
        """
        if not any(any(lags) for lags in self.lags.values()):
            return ""
        mixed = next((edge for edge, lags in self.lags.items() if len(lags) > 1), None)
        if mixed is not None:
            return f"edge {mixed} carries the value of this step and that of the step before"
        flat = flatten(graph, lambda *_: None)
        return self.compared(flat, delayed_edges(flat, feedback))

    def compared(self, flat: FlatGraph, delayed: frozenset[int]) -> str:
        """The first edge whose delay does not fit: a node acts as much later than in the model on all paths to it."""
        late = {at: found for at, node in enumerate(flat.nodes) if (found := self.fixed(node)) is not None}
        touching: dict[int, list[tuple[int, int, tuple[str, str]]]] = {}
        for at, edge in enumerate(flat.edges):
            if edge.label in self.lags:
                change = (at in delayed) - next(iter(self.lags[edge.label]))
                touching.setdefault(edge.source, []).append((edge.target, change, edge.label))
                touching.setdefault(edge.target, []).append((edge.source, -change, edge.label))
        pending = list(late)
        for start in range(-1, len(flat.nodes)):
            if start >= 0 and start not in late:
                late[start] = 0
                pending.append(start)
            while pending:
                node = pending.pop()
                for other, change, label in touching.get(node, ()):
                    wanted = late[node] + change
                    if other not in late:
                        late[other] = wanted
                        pending.append(other)
                    elif late[other] != wanted:
                        return f"edge {label} would carry the value of another step"
        return ""

    def fixed(self, node: FlatNode) -> int | None:
        """How many steps later than in the model a node has to act; None where that makes no difference."""
        held = node.node
        if node.is_junction:
            return None if node.scope else 0
        if node.label in self.shifts:
            return self.shifts[node.label]
        if isinstance(held, NEURONS):
            return 0
        if isinstance(held, nir.Threshold):
            return None if bool(np.all(np.asarray(held.threshold) >= 0)) else 0
        bias = getattr(held, "bias", None)
        return None if bias is None or not np.any(bias) else 0
