"""Any finite graph, also a damaged one, becomes a network or a typed error, soon."""

from __future__ import annotations

import math
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import event, given

from nir_bridge import NIRBridgeError, from_nir
from tests.properties.nir_common import bounded, often
from unflatten.testing.nir.code import graph_code
from unflatten.testing.nir.damage import damaged_graphs
from unflatten.testing.nir.graphs import nir_graphs
from unflatten.testing.nir.running import inputs_of

LARGEST = 100_000
"""How many numbers an input may have that is tried out: a damaged shape can ask for any number."""


def outcome(graph: nir.NIRGraph) -> str:
    with bounded():
        try:
            net = from_nir(graph)
            shapes = [port.shape for port in net.input_ports]
            if any(shape is None or math.prod(shape) > LARGEST for shape in shapes):
                return "runs for inputs that fit"
            with torch.no_grad():
                net.run(inputs_of(net, 2))
        except NIRBridgeError as error:
            return type(error).__name__
    return "runs"


@given(damaged_graphs())
@often(12)
def test_damaged_graphs(graph: nir.NIRGraph) -> None:
    event(outcome(graph))


@given(nir_graphs(max_nodes=12, depth=3))
@often(1)
def test_large_graphs(graph: nir.NIRGraph) -> None:
    assert outcome(graph) == "runs", graph_code(graph)


@pytest.mark.parametrize("kind", ["complete", "ladder", "nested loops", "many ports"])
def test_shapes_that_take_long_elsewhere(kind: str) -> None:
    assert outcome(SHAPES[kind]()) == "runs"


def _graph(edges: list[tuple[str, str]], **nodes: Any) -> nir.NIRGraph:

    ends = {"i": nir.Input(np.array([1])), "o": nir.Output(np.array([1]))}
    return nir.NIRGraph(
        {**ends, **nodes}, [("i", next(iter(nodes))), (next(iter(nodes)), "o"), *edges], type_check=False
    )


def _many(count: int) -> dict[str, Any]:

    return {f"n{at}": nir.Scale(np.full(1, 0.5 / count)) for at in range(count)}


def complete() -> nir.NIRGraph:
    return _graph([(f"n{a}", f"n{b}") for a in range(40) for b in range(40)], **_many(40))


def ladder() -> nir.NIRGraph:
    edges = [(f"n{at}", f"n{at + step}") for at in range(200) for step in (-2, -1, 1, 2) if 0 <= at + step < 200]
    return _graph(edges, **_many(200))


def nested_loops() -> nir.NIRGraph:
    edges = [(f"n{at}", f"n{at + 1}") for at in range(199)]
    edges += [(f"n{199 - at}", f"n{at}") for at in range(100)]
    return _graph(edges, **_many(200))


def many_ports() -> nir.NIRGraph:

    ports = {f"p{at}": nir.Input(np.array([1])) for at in range(60)}
    sinks = {f"q{at}": nir.Output(np.array([1])) for at in range(60)}
    inner = nir.NIRGraph({**ports, **sinks}, [(f"p{at}", f"q{at}") for at in range(60)], type_check=False)
    edges = [(f"g.q{at}", f"g.p{at + 1}") for at in range(59)]
    return _graph([("n0", "g.p0"), *edges, ("g.q59", "n0")], **_many(1), g=inner)


SHAPES = {"complete": complete, "ladder": ladder, "nested loops": nested_loops, "many ports": many_ports}
