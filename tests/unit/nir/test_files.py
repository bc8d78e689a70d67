"""Files that are not what they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np
import pytest
import torch

from nir_bridge import from_nir, read, write
from nir_bridge.errors import FileError, NIRBridgeError, UnmappedNodeError
from tests.support.nir_graphs import gain, lif, sink, source

DATA = Path(__file__).parents[2] / "data" / "nir"


def test_paths_may_be_strings(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    nir.write(path, nir.NIRGraph.from_list(gain(2)))
    assert from_nir(str(path))(torch.ones(1))[0].item() == from_nir(path)(torch.ones(1))[0].item() == 2.0


def test_a_single_node_in_a_file(tmp_path: Path) -> None:
    nir.write(tmp_path / "node.nir", lif())
    assert from_nir(tmp_path / "node.nir")(torch.full((1,), 2.0))[0].item() == 1.0


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no file.*nothing\.nir"):
        from_nir(tmp_path / "nothing.nir")


@pytest.mark.parametrize("size", [0, 100, 5000, 30_000])
def test_a_file_that_is_cut_off(tmp_path: Path, size: int) -> None:
    path = tmp_path / "cut.nir"
    path.write_bytes((DATA / "braille_noDelay_bias_zero.nir").read_bytes()[:size])
    with pytest.raises(FileError, match=r"cut\.nir"):
        from_nir(path)


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({"a": 1}, "no 'node'"),
        ({"node/type": "LIF"}, "v_threshold"),
        ({"node/other": "LIF"}, "no 'type'"),
        ({"node/type": "NIRGraph"}, "no Input"),
    ],
)
def test_other_files(tmp_path: Path, entries: dict[str, object], named: str) -> None:
    path = tmp_path / "other.nir"
    with h5py.File(path, "w") as file:
        for name, value in entries.items():
            file[name] = value
    with pytest.raises(NIRBridgeError, match=named):
        from_nir(path)


def test_a_node_of_the_future(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "new.nir", "w") as file:
        file["node/type"] = "Quantum"
    with pytest.raises(UnmappedNodeError, match="Quantum"):
        from_nir(tmp_path / "new.nir")


def test_graphs_that_nir_itself_refuses_to_type(tmp_path: Path) -> None:
    made = nir.NIRGraph(
        {"i": source(1), "l": gain(2), "o": sink(1, 1, 1)}, [("i", "l"), ("l", "o"), ("i", "l")], type_check=False
    )
    nir.write(tmp_path / "graph.nir", made)
    assert from_nir(tmp_path / "graph.nir")(torch.ones(1))[0].item() == 4.0


def test_edges_that_are_no_pairs(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "odd.nir", "w") as file:
        node = file.create_group("node")
        node["type"], node["edges"] = "NIRGraph", ["a", "b", "c"]
        node.create_group("nodes")
    with pytest.raises(FileError, match="'edges' holds 3 names, which are no pairs"):
        read(tmp_path / "odd.nir")


def test_a_link_stays_and_rights_are_kept(tmp_path: Path) -> None:
    graph = nir.NIRGraph.from_list(nir.Linear(np.eye(2)))
    write(graph, tmp_path / "graph.nir")
    (tmp_path / "graph.nir").chmod(0o600)
    (tmp_path / "link.nir").symlink_to("graph.nir")
    write(graph, tmp_path / "link.nir")
    assert (tmp_path / "link.nir").is_symlink()
    assert (tmp_path / "graph.nir").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(FileError, match="is no path"):
        read(path)


def damaged(path: Path, change: Any) -> Path:
    write(nir.NIRGraph.from_list(gain(2)), path)
    with h5py.File(path, "a") as file:
        change(file["node"])
    return path


def put(group: Any, name: str, value: Any) -> None:
    group.pop(name, None)
    group.create_dataset(name, data=value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda node: put(node, "nodes", 3), "'nodes' is no group"),
        (lambda node: put(node, "edges", np.array([[1, 2]])), r"the edge \[1, 2\] does not name two nodes"),
        (lambda node: put(node.require_group("metadata/nir_bridge"), "names", "{"), "'nir_bridge' is damaged"),
    ],
)
def test_parts_of_a_file_that_are_something_else(tmp_path: Path, change: Any, named: str) -> None:
    with pytest.raises(FileError, match=named):
        read(damaged(tmp_path / "graph.nir", change))


def test_what_a_file_holds_besides_nodes(tmp_path: Path) -> None:
    stray = read(damaged(tmp_path / "stray.nir", lambda node: put(node["nodes"], "stray", 3)))
    assert len(stray.nodes) == 3
    foreign = read(
        damaged(tmp_path / "foreign.nir", lambda node: put(node.require_group("metadata"), "nir_bridge", "x"))
    )
    assert foreign.metadata == {"nir_bridge": "x"}


def test_metadata_of_nodes(tmp_path: Path) -> None:
    node = gain(2)
    graph = nir.NIRGraph.from_list(node)
    node.metadata = {"a": {"b": 1.5}}
    write(graph, tmp_path / "graph.nir")
    assert [each.metadata for each in read(tmp_path / "graph.nir").nodes.values()] == [{}, {"a": {"b": 1.5}}, {}]
    wrong: list[tuple[Any, str]] = [({"a/b": 1}, "HDF5 can't hold this name"), ({"a": object()}, "a file can't hold")]
    for metadata, named in wrong:
        node.metadata = metadata
        with pytest.raises(FileError, match=named):
            write(graph, tmp_path / "other.nir")
    assert [file.name for file in tmp_path.iterdir()] == ["graph.nir"]
