"""A graph as it was read, without the values that its modules hold: what is needed to write it again as it was."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import nir
import numpy as np

from nir_bridge.dynamics import Dynamics
from nir_bridge.flattening import FlatGraph, Path
from nir_bridge.names import split_names
from nir_bridge.notes import metadata_of

HELD = frozenset(
    {"weight", "bias", "scale", "threshold", "delay", "tau", "tau_syn", "tau_mem", "r", "v_leak", "v_threshold",
     "v_reset", "w_in"}
)  # fmt: skip
"""The fields whose values modules hold."""


@dataclass(frozen=True, eq=False)
class Template:
    """A node.

    Attributes:
        kind: its type.
        path: of its module; None for Input and Output nodes.
        values: its fields, but for those that its module holds.
        types: the element types of those that it holds.
        same: equal for nodes that are one object.
    """

    kind: type[nir.NIRNode]
    path: Path | None
    values: Mapping[str, Any]
    types: Mapping[str, np.dtype[Any]]
    same: int


@dataclass(frozen=True, eq=False)
class Level:
    """A graph.

    Attributes:
        path: where it is.
        nodes: by name; graphs inside by their path.
        edges: as they were.
        metadata: as it was.
        same: equal for graphs that are one object.
    """

    path: Path
    nodes: tuple[tuple[str, Template | Path], ...]
    edges: tuple[tuple[str, str], ...]
    metadata: Mapping[str, Any]
    same: int


@dataclass(frozen=True, eq=False)
class Sketch:
    """A graph with all graphs inside it, the innermost first, and the rules that it was read with."""

    levels: tuple[Level, ...]
    dynamics: Dynamics


def sketched(flat: FlatGraph, dynamics: Dynamics) -> Sketch:
    """The sketch of a graph."""
    numbers: dict[int, int] = {}
    levels = []
    for path in sorted(flat.scopes, key=lambda path: (-len(path), path)):
        graph = flat.scopes[path].graph
        paths = split_names(graph.nodes)
        nodes: list[tuple[str, Template | Path]] = []
        for name, node in graph.nodes.items():
            where = (*path, *paths[name])
            nodes.append((name, where if where in flat.scopes else _template(node, where, numbers)))
        edges = tuple((source, target) for source, target in graph.edges)
        same = numbers.setdefault(id(graph), len(numbers))
        levels.append(
            Level(path, tuple(nodes), edges, copy.deepcopy(metadata_of(graph, flat.scopes[path].label)), same)
        )
    return Sketch(tuple(levels), dynamics)


def _template(node: nir.NIRNode, path: Path, numbers: dict[int, int]) -> Template:
    values: dict[str, Any] = {}
    types: dict[str, np.dtype[Any]] = {}
    is_port = isinstance(node, nir.Input | nir.Output)
    for item in fields(node):
        value = getattr(node, item.name, None)
        if item.name in HELD and not is_port and value is not None:
            types[item.name] = np.asarray(value).dtype
        else:
            values[item.name] = copy.deepcopy(value)
    return Template(type(node), None if is_port else path, values, types, numbers.setdefault(id(node), len(numbers)))
