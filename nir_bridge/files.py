"""Reading and writing NIR files, without the type checks that change graphs and refuse valid ones."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np

from nir_bridge.errors import FileError, UnmappedNodeError
from nir_bridge.notes import KEY, metadata_of

_FAULTS = (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError, AssertionError)
"""What h5py and nir raise for files that are damaged, or are something else."""


def read(path: str | os.PathLike[str]) -> nir.NIRNode:
    """The node that a file holds, usually a graph.

    Example:
        >>> import nir, numpy as np, tempfile
        >>> path = tempfile.mkdtemp() + "/graph.nir"
        >>> write(nir.NIRGraph.from_list(nir.Linear(np.eye(2))), path)
        >>> list(read(path).nodes)
        ['input', 'linear', 'output']

    Node names may hold any character; nothing is added to the graph, and shapes are not checked.

    Raises:
        FileError: there is no file, or it is not NIR, or it is damaged.
        UnmappedNodeError: it holds a node of a type that the installed nir does not know.
    """
    path = _path(path)
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


def _path(path: Any) -> Path:
    try:
        return Path(os.fsdecode(path))
    except TypeError as error:
        raise FileError(f"{path!r} is no path; give a string or an os.PathLike") from error


def _content(group: Any) -> dict[str, Any]:
    """What an HDF5 group holds, as nested dicts."""
    return {name: _content(item) if isinstance(item, h5py.Group) else _value(item[()]) for name, item in group.items()}


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return [_value(item) for item in value.tolist()]
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
    if kind in ("Input", "Output"):
        content = {"shape": None, **content}
    if kind in ("Conv1d", "Conv2d"):
        content = {"input_shape": None, "bias": None, **content}
    try:
        return nir.dict2NIRNode(dict(content))
    except _FAULTS as error:
        raise FileError(f"{where}, a {kind}: {type(error).__name__}: {error}") from error


def _graph(content: dict[str, Any], path: str, name: str) -> nir.NIRGraph:
    where = f"{path!r}, graph {name!r}" if name else f"{path!r}"
    if not isinstance(content.get("nodes"), dict) and "nodes" in content:
        raise FileError(f"{where}: 'nodes' is no group")
    prefix = f"{name}." if name else ""
    metadata, names = _own_notes(content.get("metadata"), where)
    nodes = {
        names.get(inner, inner): _node(found, path, prefix + names.get(inner, inner))
        for inner, found in _named(content.get("nodes", {}), "")
    }
    held = np.asarray(content.get("edges", []))
    if held.size % 2:
        raise FileError(f"{where}: 'edges' holds {held.size} names, which are no pairs")
    edges = [_edge(pair, where) for pair in held.reshape(-1, 2).tolist()]
    edges = [(_restored(source, names), _restored(target, names)) for source, target in edges]
    return nir.NIRGraph(nodes, edges, metadata, type_check=False)


def _own_notes(metadata: Any, where: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A graph's metadata without what `write` put there, and the names that HDF5 can't hold."""
    if not isinstance(metadata, dict):
        return {}, {}
    own = metadata.get(KEY)
    if not isinstance(own, dict):
        return metadata, {}
    try:
        names = {str(held): str(name) for held, name in json.loads(own.get("names", "[]"))}
    except (ValueError, TypeError) as error:
        raise FileError(f"{where}: its metadata {KEY!r} is damaged: {error}") from error
    rest = {key: value for key, value in own.items() if key != "names"}
    kept = {**metadata, KEY: rest} if rest else {key: value for key, value in metadata.items() if key != KEY}
    return kept, names


def _restored(end: str, names: Mapping[str, str]) -> str:
    """The end of an edge with its original name: a node, or a port of a graph."""
    if end in names:
        return names[end]
    for at in range(len(end) - 1, 0, -1):
        if end[at] == "." and end[:at] in names:
            return names[end[:at]] + end[at:]
    return end


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


def write(graph: nir.NIRNode, path: str | os.PathLike[str]) -> None:
    """Writes a graph into a file, which is there whole or not at all.

    Nothing is checked or changed. Names that HDF5 can't hold are escaped, shapes and biases that are None left out;
    `read` gives all of it back. Other readers of NIR see the escaped names.

    Args:
        graph: a graph, or a single node.
        path: where to; a file that is there is replaced.

    Raises:
        FileError: it can't be written there, or the graph holds something that a file can't.
    """
    if not isinstance(graph, nir.NIRNode):
        raise FileError(f"can't write a {type(graph).__name__}; give a nir.NIRGraph, or one of its nodes")
    path = _path(path)
    path = path.resolve() if path.is_symlink() else path
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
    except OSError as error:
        raise FileError(f"can't write to {str(path)!r}: {error}") from error
    try:
        with h5py.File(name, "w") as file:
            file.create_dataset("version", data=nir.version, dtype=h5py.string_dtype())
            _put_node(file.create_group("node"), graph, "")
        Path(name).chmod(path.stat().st_mode & 0o777 if path.is_file() else 0o666 & ~_umask())
        Path(name).replace(path)
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"can't write to {str(path)!r}: {type(error).__name__}: {error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _put_node(group: Any, node: nir.NIRNode, label: str) -> None:
    """Writes a node into a group of its own."""
    group.create_dataset("type", data=type(node).__name__, dtype=h5py.string_dtype())
    if isinstance(node, nir.NIRGraph):
        _put_graph(group, node, label)
        return
    for item in fields(node):
        if item.name not in ("input_type", "output_type", "metadata"):
            _put(group, item.name, getattr(node, item.name), label)
    for kind, field, types in (
        (nir.Input, "shape", "input_type"),
        (nir.Output, "shape", "output_type"),
        (nir.Flatten, "input_type", "input_type"),
    ):
        held = getattr(node, types, None) if isinstance(node, kind) else None
        if isinstance(held, Mapping):
            _put(group, field, next(iter(held.values()), None), label)
    metadata = metadata_of(node, label)
    if metadata:
        _put(group, "metadata", metadata, label)


def _put_graph(group: Any, graph: nir.NIRGraph, label: str) -> None:
    held = _held_names(graph.nodes)
    nodes = group.create_group("nodes")
    for name, node in graph.nodes.items():
        _put_node(nodes.create_group(held[name]), node, f"{label}.{name}" if label else name)
    edges = np.empty((len(graph.edges), 2), dtype=object)
    for at, edge in enumerate(graph.edges):
        edges[at] = [_restored(end, held) for end in edge]
    group.create_dataset("edges", data=edges, dtype=h5py.string_dtype())
    changed = [[short, name] for name, short in held.items() if short != name]
    noted = metadata_of(graph, label)
    own: Any = noted.get(KEY, {})
    if changed:
        own = {**own, "names": json.dumps(changed)}
    metadata = {**noted, **({KEY: own} if own else {})}
    if metadata:
        _put(group, "metadata", metadata, label)


def _held_names(names: Iterable[str]) -> dict[str, str]:
    """What HDF5 calls each node: its name, or something like it where it can't be one."""
    known = list(names)
    good = {name for name in known if _fits(name)}
    held = {name: name for name in good}
    for name in known:
        if name in good:
            continue
        base = "".join(char if _fits(f"x{char}") else f"%{ord(char):02X}" for char in name)
        base = base if _fits(base) else f"%{base}".replace(".", "%2E")
        short, count = base, 1
        while short in good:
            short, count = f"{base}_{count}", count + 1
        good.add(short)
        held[name] = short
    return {name: held[name] for name in known}


def _fits(name: str) -> bool:
    """Whether HDF5 takes a name for one, and gives it back."""
    return name not in ("", ".", "..") and not any(char in "/\0" or "\ud800" <= char <= "\udfff" for char in name)


def _put(group: Any, name: str, value: Any, label: str) -> None:
    """Writes a value under a name; None is left out."""
    where = f"node {label!r}, {name!r}" if label else f"{name!r}"
    if value is None:
        return
    if not _fits(name):
        raise FileError(f"{where}: HDF5 can't hold this name; choose another one")
    if isinstance(value, Mapping):
        inner = group.create_group(name)
        for key, item in value.items():
            _put(inner, str(key), item, label)
        return
    if isinstance(value, str):
        group.create_dataset(name, data=value, dtype=h5py.string_dtype())
        return
    try:
        array = np.asarray(value)
        kind = h5py.string_dtype() if array.dtype.kind in "US" else array.dtype
        packing = {"compression": "gzip"} if array.size > 1 and array.dtype.kind in "fiub" else {}
        array = array.astype(object) if array.dtype.kind == "U" else array
        group.create_dataset(name, data=array, dtype=kind, **packing)
    except (TypeError, ValueError) as error:
        raise FileError(f"{where}: a file can't hold {value!r}: {error}") from error
