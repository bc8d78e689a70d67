"""Edges, cycles, ports, and nested graphs."""

from __future__ import annotations

import itertools
import time
from typing import Any

import nir
import numpy as np
import pytest
import torch

from nir_bridge import from_nir
from nir_bridge.errors import GraphError
from tests.support.nir_graphs import gain, graph, lif, shifted, sink, source


def steps(made: nir.NIRGraph, xs: list[float], **options: Any) -> list[float]:
    net = from_nir(made, **options)
    values = torch.tensor(xs)[:, None]
    layered, stepped = net.run(values)[0], net.run(values, layerwise=False)[0]
    assert torch.equal(layered, stepped)
    return layered[:, 0].tolist()


def test_edges_add_and_count_twice() -> None:
    made = graph([("i", "a"), ("i", "a"), ("a", "o"), ("i", "o")], a=gain(3))
    assert steps(made, [1.0, 2.0]) == [7.0, 14.0]


def test_only_edges_that_come_back_are_delayed() -> None:
    made = graph(
        [("i", "a"), ("a", "b"), ("b", "b"), ("b", "c"), ("c", "a"), ("c", "o")], a=gain(0.5), b=gain(0.25), c=gain(3)
    )
    assert from_nir(made).delayed_edges == (("b", "b"), ("c", "a"))
    assert steps(made, [1.0, 2.0, 3.0]) == [0.375, 0.984375, 1.740234375]


def test_the_delay_sits_at_the_neuron_or_at_the_edge_that_comes_back() -> None:
    made = graph([("i", "n"), ("n", "w"), ("w", "n"), ("n", "o")], n=lif(), w=shifted(0.5, 2.0))
    assert from_nir(made).delayed_edges == (("n", "w"),)
    assert steps(made, [0.0, 0.0]) == [1.0, 1.0]  # the bias acts at once
    assert from_nir(made, dynamics="norse", dt=1e-4).delayed_edges == (("w", "n"),)
    assert steps(made, [0.0, 0.0], dynamics="norse", dt=1e-4) == [0.0, 1.0]


def test_feedback_over_two_layers_leaves_the_way_forward_alone() -> None:
    made = graph(
        [("i", "n1"), ("n1", "f"), ("f", "n2"), ("n2", "b"), ("b", "n1"), ("n2", "o")],
        n1=lif(), n2=lif(), f=gain(2), b=gain(1),
    )  # fmt: skip
    assert from_nir(made).delayed_edges == (("n2", "b"),)
    assert steps(made, [2.0, 0.0]) == [1.0, 0.0]


def test_a_loop_that_nothing_feeds() -> None:
    made = graph([("i", "o"), ("n", "n"), ("n", "o")], n=shifted(1, 1))
    assert steps(made, [0.0, 0.0, 0.0]) == [1.0, 2.0, 3.0]


def test_a_node_without_edges_gets_silence() -> None:
    made = graph([("i", "o"), ("n", "o")], n=shifted(1, 4), alone=gain(1))
    assert steps(made, [1.0]) == [5.0]
    assert "alone" in dict(from_nir(made).named_children())


def test_a_probe_is_no_output() -> None:
    made = nir.NIRGraph(
        {"i": source(1), "l": gain(2), "probe": gain(4), "o": sink(1)}, [("i", "l"), ("l", "o"), ("l", "probe")]
    )
    assert "output_probe" in made.nodes
    net = from_nir(made)
    _, _, recorded = net.run(torch.ones(2, 1), record=("probe",))
    assert recorded["probe"].tolist() == [[8.0], [8.0]]
    assert steps(made, [1.0]) == [2.0]


def test_outputs_by_name() -> None:
    made = nir.NIRGraph(
        {"i": source(1), "l": gain(2), "b": sink(1), "a": sink(1)}, [("i", "l"), ("l", "b"), ("i", "a")]
    )
    ys, _ = from_nir(made)(torch.ones(1))
    assert {name: y.item() for name, y in ys.items()} == {"a": 1.0, "b": 2.0}
    assert {name: y.tolist() for name, y in from_nir(made).run(torch.ones(2, 1))[0].items()} == {
        "a": [[1.0], [1.0]],
        "b": [[2.0], [2.0]],
    }


def test_inputs_by_position_and_name() -> None:
    made = nir.NIRGraph(
        {"b": source(1), "a": source(1), "l": gain(2), "m": gain(3), "o": sink(1)},
        [("a", "l"), ("b", "m"), ("l", "o"), ("m", "o")],
    )
    net, one, ten = from_nir(made), torch.ones(1), torch.full((1,), 10.0)
    assert net(one, ten)[0].item() == 32.0
    assert net(b=one, a=ten)[0].item() == 23.0
    assert net(one, b=ten)[0].item() == 32.0
    state = net.initial_state()
    assert net(one, ten, state)[0].item() == net(one, ten, state=state)[0].item() == 32.0
    assert net.run({"a": one[None], "b": ten[None]})[0].item() == net.run((one[None], ten[None]))[0].item() == 32.0


def two_ports() -> nir.NIRGraph:
    return nir.NIRGraph(
        {"p": source(1), "q": source(1), "k": gain(10), "r": sink(1), "s": sink(1)},
        [("p", "k"), ("k", "r"), ("q", "s")],
        type_check=False,
    )


def test_ports_of_a_nested_graph() -> None:
    made = graph(
        [("i", "sub.p"), ("l", "sub.q"), ("i", "l"), ("sub.r", "o"), ("sub.s", "o")], sub=two_ports(), l=gain(3)
    )
    assert steps(made, [1.0]) == [13.0]
    net = from_nir(made)
    assert net.sub(q=torch.ones(1), p=torch.zeros(1))["s"].item() == 1.0


def test_a_nested_graph_that_can_not_be_called_in_one_go() -> None:
    made = graph([("i", "sub.p"), ("sub.r", "l"), ("l", "sub.q"), ("sub.s", "o")], sub=two_ports(), l=gain(3))
    net = from_nir(made)
    assert net.delayed_edges == ()
    assert net.code == ("def forward(self, x, state=None):\n    return self.l(self.sub.k(x)), State()")
    assert steps(made, [1.0]) == [30.0]


def test_nested_twice_and_listed_before_their_source() -> None:
    inner = nir.NIRGraph({"i": source(1), "n": lif(), "o": sink(1)}, [("i", "n"), ("n", "o")], type_check=False)
    middle = nir.NIRGraph({"sub": inner, "o": sink(1), "i": source(1)}, [("sub", "o"), ("i", "sub")], type_check=False)
    made = nir.NIRGraph(
        {"sub": middle, "o": sink(1), "l": gain(2), "i": source(1)},
        [("sub", "o"), ("l", "sub"), ("i", "l")],
        type_check=False,
    )
    net = from_nir(made)
    assert [name for name, _ in net.named_modules()] == ["", "l", "sub", "sub.sub", "sub.sub.n"]
    assert net.original_names["sub.sub.n"] == "sub.sub.n"
    assert steps(made, [1.0, 0.1]) == [1.0, 0.0]


def test_a_node_under_two_names_is_one_module() -> None:
    shared = lif(tau=1e-3)
    made = graph([("i", "a"), ("a", "b"), ("b", "o")], a=shared, b=shared)
    net = from_nir(made)
    assert net.a is net.b
    _, state = net(torch.full((1,), 0.1))
    assert list(state) == ["a", "b"]


@pytest.mark.parametrize(
    ("edges", "named"),
    [
        ([("ghost", "l"), ("l", "o")], "ghost"),
        ([("i", "l"), ("l", "ghost")], "ghost"),
        ([("i", "sub.k"), ("sub.r", "o")], "sub.k"),
        ([("i", "sub"), ("sub.r", "o")], "'sub.p', 'sub.q'"),
        ([("i", "l")], "Output 'o'"),
    ],
)
def test_edges_that_lead_nowhere_are_named(edges: list[tuple[str, str]], named: str) -> None:
    with pytest.raises(GraphError, match=named):
        from_nir(graph(edges, l=gain(1), sub=two_ports()))


@pytest.mark.parametrize("kind", ["Input", "Output"])
def test_graphs_need_inputs_and_outputs(kind: str) -> None:
    nodes = {"i": source(1), "l": gain(1), "o": sink(1)}
    del nodes["i" if kind == "Input" else "o"]
    with pytest.raises(GraphError, match=f"no {kind} node"):
        from_nir(nir.NIRGraph(nodes, [], type_check=False))


def test_a_graph_inside_of_itself() -> None:
    made = graph([("i", "o")])
    made.nodes["again"] = made
    with pytest.raises(GraphError, match="inside of itself"):
        from_nir(made)


@pytest.mark.parametrize("field", ["nodes", "edges"])
@pytest.mark.parametrize("value", [None, 3, "i", np.ones(2), np.array(1.0), [("i", "l")]])
@pytest.mark.parametrize("nested", [False, True])
def test_nodes_and_edges_can_be_read(field: str, value: Any, nested: bool) -> None:
    made = graph([("i", "l"), ("l", "o")], l=gain(1))
    inner = made if not nested else graph([("i", "o")])
    if nested:
        made.nodes["sub"] = inner
    setattr(inner, field, value)
    where = "graph 'sub'" if nested else "the graph"
    if field == "nodes" or not isinstance(value, list):
        with pytest.raises(GraphError, match=f"{where}: its {field} are a"):
            from_nir(made)
    del inner.__dict__[field]
    with pytest.raises(GraphError, match=f"{where}: its {field} are a NoneType"):
        from_nir(made)


def chain(size: int, back: bool) -> nir.NIRGraph:
    names = ["i", *(f"l{at}" for at in range(size)), "o"]
    nodes: dict[str, Any] = {name: gain(1) for name in names[1:-1]}
    edges = list(itertools.pairwise(names))
    if back:
        edges += [(b, a) for a, b in itertools.pairwise(names[1:-1])]
    return nir.NIRGraph({"i": source(1), **nodes, "o": sink(1)}, edges, type_check=False)


@pytest.mark.parametrize("back", [False, True])
def test_ten_thousand_nodes(back: bool) -> None:
    start = time.perf_counter()
    net = from_nir(chain(10_000, back))
    assert net(torch.ones(1))[0].item() == 1.0
    assert len(net.delayed_edges) == (9_999 if back else 0)
    assert time.perf_counter() - start < 60


def test_a_graph_is_not_changed() -> None:
    made = graph([("i", "a"), ("a", "o")], a=gain(2))
    nodes, edges, weight = dict(made.nodes), list(made.edges), np.array(made.nodes["a"].weight)
    net = from_nir(made)
    net.a.weight.data.fill_(7)
    assert dict(made.nodes) == nodes
    assert made.edges == edges
    assert np.array_equal(made.nodes["a"].weight, weight)


def test_outputs_of_graphs_with_a_prefix_in_common_stay_apart() -> None:
    def inner(factor: float) -> nir.NIRGraph:
        return nir.NIRGraph.from_list(gain(factor))

    nodes = {"p.0": inner(2), "p.1": inner(5), "q": gain(1)}
    edges = [("i", "p.0"), ("i", "p.1"), ("p.0", "q"), ("p.1", "q"), ("q", "o")]
    assert from_nir(nir.NIRGraph({"i": source(1), "o": sink(1), **nodes}, edges))(torch.ones(1))[0].item() == 7
