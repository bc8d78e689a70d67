"""Reading NIR files, without the type checks that change graphs and refuse valid ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np

from nir_bridge.errors import FileError, UnmappedNodeError

_FAULTS = (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError, AssertionError)
"""What h5py and nir raise for files that are damaged, or are something else."""


def read(path: str | os.PathLike[str]) -> nir.NIRNode:
    """The node that a file holds, usually a graph.

    Node names may hold any character; nothing is added to the graph, and shapes are not checked.

    Raises:
        FileError: there is no file, or it is not NIR, or it is damaged.
        UnmappedNodeError: it holds a node of a type that the installed nir does not know.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"there is no file {str(path)!r}")
    try:
        with h5py.File(path, "r") as file:
            if "node" not in file:
                raise FileError(f"{str(path)!r} is an HDF5 file, but not a NIR one: it has no 'node'")
            found = _content(file["node"])
    except _FAULTS as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"{str(path)!r} can't be read as HDF5, in which NIR files are: {error}. Is it cut off?"
        ) from error
    return _node(found, str(path), "")


def _content(group: Any) -> dict[str, Any]:
    """What an HDF5 group holds, as nested dicts."""
    return {name: _content(item) if isinstance(item, h5py.Group) else _value(item[()]) for name, item in group.items()}


def _value(value: Any) -> Any:
    return value.decode("utf8") if isinstance(value, bytes) else value


def _node(content: dict[str, Any], path: str, name: str) -> nir.NIRNode:
    """The node that a dict describes."""
    where = f"{path!r}, node {name!r}" if name else f"{path!r}"
    kind = content.get("type")
    node_type = getattr(nir, str(kind), None)
    if kind is None or kind == "":
        raise FileError(f"{where}: the node has no 'type'")
    if not isinstance(node_type, type) or not issubclass(node_type, nir.NIRNode):
        raise UnmappedNodeError(f"{where}: nir {nir.version} has no node of type {kind!r}; install a newer nir")
    if kind == "NIRGraph":
        return _graph(content, path, name)
    try:
        return nir.dict2NIRNode(dict(content))
    except _FAULTS as error:
        raise FileError(f"{where}, a {kind}: {type(error).__name__}: {error}") from error


def _graph(content: dict[str, Any], path: str, name: str) -> nir.NIRGraph:
    where = f"{path!r}, graph {name!r}" if name else f"{path!r}"
    if not isinstance(content.get("nodes"), dict) and "nodes" in content:
        raise FileError(f"{where}: 'nodes' is no group")
    prefix = f"{name}." if name else ""
    nodes = {inner: _node(found, path, prefix + inner) for inner, found in _named(content.get("nodes", {}), "")}
    edges = [_edge(pair, where) for pair in np.asarray(content.get("edges", [])).reshape(-1, 2).tolist()]
    metadata = content.get("metadata")
    return nir.NIRGraph(nodes, edges, metadata if isinstance(metadata, dict) else {}, type_check=False)


def _named(content: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The nodes of a graph; HDF5 makes groups of a name with slashes."""
    for name, found in content.items():
        if not isinstance(found, dict):
            continue
        if isinstance(found.get("type"), str):
            yield prefix + name, found
        else:
            yield from _named(found, f"{prefix}{name}/")


def _edge(pair: Any, where: str) -> tuple[str, str]:
    source, target = (_value(end) for end in pair)
    if not isinstance(source, str) or not isinstance(target, str):
        raise FileError(f"{where}: the edge {pair!r} does not name two nodes")
    return source, target
