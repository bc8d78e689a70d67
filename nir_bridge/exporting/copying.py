"""Nodes as values: copies of their arrays, their shapes, and keys by which equal ones are found."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import Any

import nir
import numpy as np
from torch import Tensor

from nir_bridge.exporting.recipes import array
from nir_bridge.fields import Shape


def copied(node: nir.NIRNode) -> nir.NIRNode:
    """A node with arrays of its own, also where it holds tensors."""
    memo: dict[int, Any] = {}
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, nir.NIRGraph):
            pending += current.nodes.values()
        for value in vars(current).values():
            if isinstance(value, Tensor):
                memo[id(value)] = array(value)
    return copy.deepcopy(node, memo)


def placed(node: nir.NIRNode, takes: Shape | None, gives: Shape | None) -> nir.NIRNode:
    """A node with its shapes, where its type leaves them open."""
    for name, key, shape in (("input_type", "input", takes), ("output_type", "output", gives)):
        types = getattr(node, name, None)
        if isinstance(types, Mapping) and key in types and types[key] is None and shape is not None:
            setattr(node, name, {key: np.array(shape, dtype=np.int64)})
    if isinstance(node, nir.Conv1d | nir.Conv2d) and node.input_shape is None and takes is not None:
        spatial = takes[1:]
        node.input_shape = int(spatial[0]) if isinstance(node, nir.Conv1d) else tuple(spatial)
    return node


def key_of(node: nir.NIRNode) -> Hashable:
    """Equal for nodes that are the same, arrays and all."""
    if isinstance(node, nir.NIRGraph):
        nodes = tuple((name, key_of(inner)) for name, inner in node.nodes.items())
        return ("graph", nodes, tuple(node.edges))
    held = ((item.name, _frozen(getattr(node, item.name, None))) for item in fields(node))
    return (type(node), tuple(held))


def _frozen(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, Mapping):
        return tuple((str(key), _frozen(item)) for key, item in value.items())
    if isinstance(value, tuple | list):
        return tuple(map(_frozen, value))
    return value if isinstance(value, Hashable) else id(value)
