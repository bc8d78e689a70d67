"""To NIR and back, and from NIR and out again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nir
import torch
from hypothesis import given
from hypothesis import strategies as st

from nir_bridge import Dynamics, read, to_nir, write
from tests.properties.nir_common import code_of, followed, network, often
from unflatten.testing import assert_nir_round_trip, dynamics, graph_differences, nir_graphs


@given(nir_graphs(), dynamics())
@often(3)
@followed
def test_graphs(graph: nir.NIRGraph, rules: Dynamics) -> None:
    assert_nir_round_trip(graph, dynamics=rules)


@given(nir_graphs())
@often(2)
def test_files(graph: nir.NIRGraph) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nir"
        write(graph, path)
        assert graph_differences(graph, read(path), metadata=True, sharing=False) == [], code_of(graph)


@given(nir_graphs(), dynamics(), st.sampled_from([0.5, -2.0]))
@often(2)
@followed
def test_networks_that_have_learned(graph: nir.NIRGraph, rules: Dynamics, factor: float) -> None:
    net = network(graph, rules)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(factor)
    assert_nir_round_trip(net)
    assert to_nir(net).nodes.keys() == graph.nodes.keys()
