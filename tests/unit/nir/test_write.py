"""Graphs written into files, and networks that come back as the graphs that they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch

from nir_bridge import Dynamics, from_nir, read, to_nir, write
from nir_bridge.errors import FileError
from tests.support.nir_graphs import gain, graph, lif, sink, source
from unflatten.testing import graph_differences

DATA = Path(__file__).parents[2] / "data" / "nir"
FILES = sorted(DATA.glob("*.nir"), key=lambda path: path.name)


def odd_graph() -> nir.NIRGraph:
    """A graph with names and nodes that nir's own writer, or its type check, refuses."""
    inner = nir.NIRGraph(
        {"a/b": source(2), "..": nir.Linear(np.eye(2)), "": sink(2)}, [("a/b", ".."), ("..", "")], type_check=False
    )
    conv = nir.Conv2d(None, np.ones((2, 1, 3, 2)), 1, "same", 1, 2, None)
    nodes = {"x": nir.Input(None), "a": conv, "a/b": inner, "a%2Fb": nir.Flatten(None, 0, -1), "ü\0": lif(2),
             "o": nir.Output(None)}  # fmt: skip
    edges = [("x", "a"), ("a", "a/b.a/b"), ("a/b", "o"), ("a%2Fb", "ü\0"), ("x", "a"), ("x", "a")]
    return nir.NIRGraph(nodes, edges, {"note": {"by": "me", "seeds": [1, 2], "tags": ["a", "b"]}}, type_check=False)


def test_what_a_file_can_hold(tmp_path: Path) -> None:
    graph, path = odd_graph(), tmp_path / "graph.nir"
    write(graph, path)
    found = read(path)
    assert graph_differences(graph, found, metadata=True, sharing=False) == []
    assert found.metadata["note"]["by"] == "me"
    assert found.metadata["note"]["tags"] == ["a", "b"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph.nir"]


def test_nir_reads_what_was_written(tmp_path: Path) -> None:
    graph = nir.NIRGraph.from_list(nir.Affine(np.eye(2), np.ones(2)), lif(2))
    write(graph, tmp_path / "graph.nir")
    assert graph_differences(graph, nir.read(tmp_path / "graph.nir"), metadata=True) == []


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "graph.nir"
    write(gain(2), path)
    bad: Any = nir.NIRGraph({"a": gain(3)}, [], {"why": object()}, type_check=False)
    with pytest.raises(FileError, match="'why'"):
        write(bad, path)
    assert read(path).weight.item() == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph.nir"]
    with pytest.raises(FileError, match="can't write to"):
        write(gain(1), tmp_path / "no" / "graph.nir")
    with pytest.raises(FileError, match="can't write a dict"):
        write({}, path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_networks_come_back_as_the_graphs_that_they_were(path: Path, tmp_path: Path) -> None:
    graph = read(path)
    assert graph_differences(graph, to_nir(from_nir(graph, dtype=torch.float64)), metadata=True) == []
    write(graph, tmp_path / "again.nir")
    assert graph_differences(graph, read(tmp_path / "again.nir"), metadata=True) == []


@pytest.mark.parametrize("dynamics", ["norse", "spyx", Dynamics.preset("sinabs", multi_spike=False, dt=0.5)])
def test_a_file_says_how_it_is_run(dynamics: Any, tmp_path: Path) -> None:
    net = from_nir(DATA / "braille_noDelay_bias_zero.nir", dynamics=dynamics)
    write(to_nir(net), tmp_path / "graph.nir")
    again, xs = from_nir(tmp_path / "graph.nir"), (torch.rand(8, 3, 12) > 0.5).float()
    wanted, found = net.run(xs), again.run(xs)
    assert torch.equal(wanted[0], found[0])
    for (name, value), (other, same) in zip(wanted[1].tensors(), found[1].tensors(), strict=True):
        assert name == other
        assert torch.equal(value, same)


def test_trained_values_are_written() -> None:
    net = from_nir(nir.NIRGraph.from_list(nir.Linear(np.eye(2)), nir.Scale(np.ones(2))))
    with torch.no_grad():
        net.linear.weight.mul_(3)
    graph = to_nir(net)
    assert graph.nodes["linear"].weight.tolist() == [[3, 0], [0, 3]]
    assert graph.nodes["linear"].weight.dtype == np.float64
    assert to_nir(net, bypass=("scale",)).edges == [("input", "linear"), ("linear", "output")]
    other = to_nir(net, {torch.nn.Linear: lambda _: nir.Scale(np.ones(2) * 5)})
    assert isinstance(other.nodes["linear"], nir.Scale)


def test_a_network_as_one_graph() -> None:
    inner = nir.NIRGraph({"i": source(1), "w": gain(2), "o": sink(1)}, [("i", "w"), ("w", "o"), ("i", "o")])
    nodes = {"i": source(1), "g": inner, "h": inner, "o": sink(1)}
    graph = nir.NIRGraph(nodes, [("i", "g"), ("g", "h"), ("h", "o")], type_check=False)
    flat = to_nir(from_nir(graph), flatten=True)
    assert sorted(flat.nodes) == ["g.w", "h.w", "i", "o"]
    assert sorted(flat.edges) == [
        ("g.w", "h.w"), ("g.w", "o"), ("h.w", "o"), ("i", "g.w"), ("i", "h.w"), ("i", "o"),
    ]  # fmt: skip
    assert from_nir(flat)(torch.ones(1))[0].item() == from_nir(graph)(torch.ones(1))[0].item() == 9


def test_rules_are_noted_of_networks_that_only_delay() -> None:
    made = graph([("i", "d"), ("d", "a"), ("a", "o"), ("o", "d")], d=nir.Delay(np.array([2e-3])), a=gain(1))
    net = from_nir(made, dynamics=Dynamics(feedback="target", dt=1e-3))
    back = from_nir(to_nir(net))
    xs = torch.ones(6, 1)
    assert back.delayed_edges == net.delayed_edges == (("o", "d"),)
    assert torch.equal(back.run(xs)[0], net.run(xs)[0])
    assert not to_nir(from_nir(graph([("i", "a"), ("a", "o")], a=gain(1)), dynamics="norse")).metadata
