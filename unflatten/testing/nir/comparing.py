"""In what two NIR graphs, or two values, differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import nir
import numpy as np
import torch
from torch import Tensor

from nir_bridge import State
from unflatten.testing.comparing import Difference, differences

Where = tuple[str, ...]


def value_differences(expected: Any, given: Any, where: str, tolerance: float = 0.0) -> list[Difference]:
    """In what outputs or states differ, by path.

    Args:
        expected: a tensor, a state, or a mapping of them.
        given: the other side.
        where: what they are called.
        tolerance: how far numbers may be apart, relative to the largest; 0 compares every bit.
    """
    left, right = _leaves(expected), _leaves(given)
    found = [
        Difference(where, f"has {path!r}" if path in left else "has not", "has not" if path in left else "has", path)
        for path in sorted(left.keys() ^ right.keys())
    ]
    for path in left.keys() & right.keys():
        if not _close(left[path], right[path], tolerance):
            found += [replace(item, path=path) for item in differences(left[path], right[path], where)]
    return sorted(found, key=lambda item: item.path)


def _leaves(value: Any) -> dict[str, Any]:
    if isinstance(value, State):
        return dict(value.tensors())
    return dict(value) if isinstance(value, dict) else {"": value}


def _close(left: Any, right: Any, tolerance: float) -> bool:
    if not (tolerance and isinstance(left, Tensor) and isinstance(right, Tensor) and left.shape == right.shape):
        return False
    largest = float(left.detach().nan_to_num(0, 0, 0).abs().max()) if left.numel() else 0.0
    return torch.allclose(left, right, rtol=tolerance, atol=tolerance * max(largest, 1.0), equal_nan=True)


def graph_differences(
    expected: nir.NIRNode, given: nir.NIRNode, *, metadata: bool = False, sharing: bool = True
) -> list[Difference]:
    """In what two graphs differ, beside the order of nodes and edges, and the types of numbers.

    An edge to a graph with one port is the same as one to that port.

    Args:
        expected: a graph, or another node.
        given: the other side.
        metadata: whether metadata count.
        sharing: whether it counts that several names are one node; files don't hold that.

    Example:
        >>> import nir, numpy as np
        >>> a = nir.NIRGraph.from_list(nir.Scale(np.ones(1)))
        >>> b = nir.NIRGraph.from_list(nir.Scale(np.zeros(1)))
        >>> print(graph_differences(a, b)[0])
        field 'scale' (module 'scale')
              expected [1.0]
              given    [0.0]
    """
    found = list(_node_differences(expected, given, ()))
    if metadata:
        found += _metadata(expected, given, ())
    if sharing and isinstance(expected, nir.NIRGraph) and isinstance(given, nir.NIRGraph) and not found:
        found += _sharing(expected, given)
    return found


def _node_differences(expected: nir.NIRNode, given: nir.NIRNode, where: Where) -> Iterator[Difference]:
    path = ".".join(where)
    if type(expected) is not type(given):
        yield Difference("type of node", type(expected).__name__, type(given).__name__, path)
    elif isinstance(expected, nir.NIRGraph):
        yield from _content(expected, given, where)
    else:
        for name, left in _fields(expected).items():
            right = _fields(given).get(name)
            if not _alike(left, right):
                yield Difference(f"field {name!r}", _shown(left), _shown(right), path)


def _metadata(expected: nir.NIRNode, given: nir.NIRNode, where: Where) -> Iterator[Difference]:
    left, right = (getattr(node, "metadata", None) or {} for node in (expected, given))
    if not _alike(left, right):
        yield Difference("metadata", repr(left), repr(right), ".".join(where))
    if isinstance(expected, nir.NIRGraph) and isinstance(given, nir.NIRGraph):
        for name in sorted(expected.nodes.keys() & given.nodes.keys()):
            yield from _metadata(expected.nodes[name], given.nodes[name], (*where, name))


def _content(expected: nir.NIRGraph, given: Any, where: Where) -> Iterator[Difference]:
    path = ".".join(where)
    for name in sorted(expected.nodes.keys() | given.nodes.keys()):
        if name not in given.nodes or name not in expected.nodes:
            sides = ("a node", "none") if name in expected.nodes else ("none", "a node")
            yield Difference(f"node {name!r}", *sides, path)
        else:
            yield from _node_differences(expected.nodes[name], given.nodes[name], (*where, name))
    left, right = (Counter(_ends(graph, edge) for edge in graph.edges) for graph in (expected, given))
    for edge in sorted(left.keys() | right.keys()):
        if left[edge] != right[edge]:
            yield Difference(f"edge {edge}", f"{left[edge]} times", f"{right[edge]} times", path)


def _ends(graph: nir.NIRGraph, edge: Any) -> tuple[str, str]:
    return _end(graph, edge[0], nir.Output), _end(graph, edge[1], nir.Input)


def _end(graph: nir.NIRGraph, name: str, kind: type[nir.NIRNode]) -> str:
    inner = graph.nodes.get(name)
    if not isinstance(inner, nir.NIRGraph):
        return name
    ports = [port for port, node in inner.nodes.items() if isinstance(node, kind)]
    return f"{name}.{ports[0]}" if len(ports) == 1 else name


def _fields(node: nir.NIRNode) -> dict[str, Any]:
    held = {item.name: getattr(node, item.name, None) for item in fields(node) if item.name != "metadata"}
    if not isinstance(node, nir.Input | nir.Output | nir.Flatten):
        held.pop("input_type", None)
    if not isinstance(node, nir.Output):
        held.pop("output_type", None)
    return held


def _alike(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_alike(left[name], right[name]) for name in left)
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return bool(left is right or (isinstance(left, str) and left == right))
    one, other = np.asarray(left), np.asarray(right)
    return bool(one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def _shown(value: Any) -> str:
    return str(np.asarray(value).tolist()) if isinstance(value, np.ndarray | np.generic) else repr(value)


def _sharing(expected: nir.NIRGraph, given: nir.NIRGraph) -> Iterator[Difference]:
    """Names of one node in one graph that are names of several in the other."""
    left, right = dict(_walk(expected, ())), dict(_walk(given, ()))
    groups = [{path: _first(nodes, node) for path, node in nodes.items()} for nodes in (left, right)]
    for path in left:
        if groups[0][path] != groups[1][path]:
            one, other = (repr(".".join(group[path])) for group in groups)
            yield Difference("the same node as", one, other, ".".join(path))


def _first(nodes: dict[Where, nir.NIRNode], node: nir.NIRNode) -> Where:
    return min(path for path, other in nodes.items() if other is node)


def _walk(graph: nir.NIRGraph, where: Where) -> Iterator[tuple[Where, nir.NIRNode]]:
    for name, node in graph.nodes.items():
        if isinstance(node, nir.NIRGraph):
            yield from _walk(node, (*where, name))
        elif not isinstance(node, nir.Input | nir.Output):
            yield (*where, name), node
