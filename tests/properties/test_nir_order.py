"""The order of nodes and edges, hash seeds and files change nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import nir
from hypothesis import given
from hypothesis import strategies as st

from nir_bridge import Dynamics
from tests.properties.nir_common import code_of, followed, network, often
from unflatten.testing import assert_nir_order_invariant, dynamics, nir_graphs, reordered

HASHED = """
import torch
from hypothesis import given, settings
from unflatten.testing import nir_graphs
from unflatten.testing.nir.running import run_graph
from unflatten.testing.nir.code import graph_code

@settings(database=None, derandomize=True, deadline=None, max_examples=8)
@given(nir_graphs())
def show(graph):
    made = run_graph(graph, None, torch.float64, 3)
    print(graph_code(graph), made.net.print_readable(), made.net.delayed_edges, list(made.net.state_dict()))
    print(made.outputs, {path: value.tolist() for path, value in made.state.tensors()})

show()
"""


@given(nir_graphs(), dynamics())
@often(2)
@followed
def test_order(graph: nir.NIRGraph, rules: Dynamics) -> None:
    assert_nir_order_invariant(graph, dynamics=rules)


@given(nir_graphs(), st.data())
@often(4)
def test_delays_are_where_the_graph_says(graph: nir.NIRGraph, data: st.DataObject) -> None:
    net, other = network(graph), network(data.draw(reordered(graph)))
    assert net.delayed_edges == other.delayed_edges, code_of(graph)
    assert net.print_readable() == other.print_readable(), code_of(graph)


def test_hash_seeds() -> None:
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(
            [sys.executable, "-c", HASHED], env=environment, capture_output=True, text=True, check=True
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("def forward") > 8
