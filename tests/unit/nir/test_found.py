"""What the properties of NIR graphs have found, each as the kind that it is."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch

import unflatten
from nir_bridge import Dynamics, State, from_nir, to_nir
from nir_bridge.errors import CallError, DynamicsError, NodeError, StateError
from tests.support.nir_graphs import gain, graph, lif, shifted, sink, source

LOOK_ALIKES = ["\u00ba", "\ufb01", "\uff41", "\u2160", "\u00b5"]
"""Letters that Python reads as others: an ordinal, a ligature, a wide letter, a numeral, a micro sign."""


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_names_that_python_reads_as_others(name: str) -> None:
    made = graph([("i", "first"), ("first", name), (name, "o")], first=gain(2), **{name: lif()})
    net = from_nir(made)
    _, state = net(torch.ones(1))
    assert set(state) == {name}
    assert net(torch.ones(1), state)[0].shape == (1,)
    assert set(to_nir(net).nodes) == {"i", "first", name, "o"}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_modules_whose_names_python_reads_as_others(name: str) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module(name, torch.nn.Linear(2, 2))
            self.add_module("fi", torch.nn.Linear(2, 2))

        def forward(self, x: torch.Tensor) -> Any:
            y = getattr(self, name)(x)
            return self.get_submodule("fi")(x) + y * y

    model, x = Model(), torch.ones(1, 2)
    nested = unflatten.unflatten(torch.export.export(model, (x,)))
    assert torch.equal(nested(x), model(x))
    assert [path for path, _ in nested.named_children()] == [name, "fi"]


def test_state_paths_through_parts_that_begin_alike() -> None:
    inner = graph([("i", "a"), ("a", "a"), ("a", "o")], a=nir.LI(*(np.array([n]) for n in (5e-4, 1.0, 0.0))))
    net = from_nir(graph([("i", "sub"), ("sub", "o")], sub=inner))
    state = net.initial_state()
    assert [path for path, _ in state.tensors()] == ["sub.a.v", "sub.a.out"]
    changed = state.replace({path: torch.full((1,), 2.0) for path, _ in state.tensors()})
    assert changed["sub.a.v"].item() == changed["sub.a.out"].item() == 2.0
    assert state["sub.a.out"].item() == 0.0
    with pytest.raises(StateError, match=r"sub\.a\.w"):
        state.replace({"sub.a.w": torch.ones(1)})
    assert State(**{"a": 1, "a.b": State(c=2)})["a.b.c"] == 2


@pytest.mark.parametrize(("outer", "port"), [("a", "b.c"), ("a.b", "c"), ("", "p"), (".", "p"), ("a", ""), ("a.", ".")])
def test_ports_of_graphs_whose_names_begin_alike(outer: str, port: str) -> None:
    def block(name: str, factor: float) -> nir.NIRGraph:
        nodes = {name: source(1), "other": source(1), "l": gain(factor), "out": sink(1)}
        return nir.NIRGraph(nodes, [(name, "l"), ("l", "out")], type_check=False)

    decoy = "a.b" if outer == "a" else "a"
    nodes = {"i": source(1), outer: block(port, 3), decoy: block("q", 5), "o": sink(1)}
    made = nir.NIRGraph(nodes, [("i", f"{outer}.{port}"), (f"{outer}.out", "o")], type_check=False)
    assert from_nir(made)(torch.ones(1))[0].item() == 3.0


@pytest.mark.parametrize("source_of_loop", ["p", "l"])
def test_an_input_that_only_its_own_graph_leads_into(source_of_loop: str) -> None:
    inner = nir.NIRGraph(
        {"p": source(1), "l": nir.Affine(np.ones((1, 1)) * 0.5, np.ones(1)), "q": sink(1)},
        [("p", "l"), ("l", "q"), (source_of_loop, "p")],
        type_check=False,
    )
    net = from_nir(graph([("i", "o"), ("sub", "o")], sub=inner))
    ys, _ = net.run(torch.zeros(3, 1))
    expected = [1.0, 1.0, 1.0] if source_of_loop == "p" else [1.0, 1.5, 1.75]
    assert ys[:, 0].tolist() == expected
    assert torch.equal(net.run(torch.zeros(3, 1), layerwise=False)[0], ys)


def test_an_axis_of_one_is_no_batch_where_a_node_takes_it() -> None:
    neuron = nir.Scale(np.ones((1, 3)))
    made = nir.NIRGraph(
        {"i": source(1, 3), "w": nir.Scale(np.ones(3)), "n": neuron, "o": sink(1, 3)},
        [("i", "w"), ("i", "n"), ("n", "o"), ("w", "o")],
        type_check=False,
    )
    assert from_nir(made)(torch.ones(1, 3))[0].tolist() == [[2.0, 2.0, 2.0]]


def test_thresholds_have_the_rules_of_the_network() -> None:
    made = graph([("i", "t"), ("t", "n"), ("n", "o")], t=nir.Threshold(np.array([0.25])), n=lif())
    net = from_nir(made, dynamics="sinabs", dt=1e-4)
    assert net.t(torch.ones(1)).item() == 1.0
    assert from_nir(to_nir(net)).t.dynamics == Dynamics.preset("sinabs", dt=1e-4)


BAD_SHAPES = [
    np.array([-1]),
    np.array([1.5]),
    np.array(np.inf),
    np.array(np.nan),
    np.array([1e300]),
    "text",
    [[1], [2, 3]],
]


@pytest.mark.parametrize("declared", BAD_SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["input", "output"])
def test_declared_shapes_that_can_not_be(kind: str, declared: Any) -> None:
    made = graph([("i", "l"), ("l", "o")], l=gain(1))
    port = made.nodes["i" if kind == "input" else "o"]
    port.input_type, port.output_type = {"input": declared}, {"output": declared}
    with pytest.raises(NodeError, match=f"'{kind[0]}'.*{kind}_type"):
        from_nir(made)
    port.input_type = port.output_type = 3
    with pytest.raises(NodeError, match=f"{kind}_type.*dict"):
        from_nir(made)


def test_edges_inside_of_a_graph_without_a_name() -> None:
    inner = graph([("i", "n"), ("n", "n"), ("n", "o")], n=lif())
    net = from_nir(graph([("i", ""), ("", "o")], **{"": inner}))
    assert net.delayed_edges == ((".n", ".n"),)
    assert ".n" in net.original_names.values()


def test_kinds_of_arguments() -> None:
    made = graph([("i", "l"), ("l", "o")], l=gain(1))
    for options in ({"device": "nowhere"}, {"device": 1.5}, {"dtype": torch.int32}, {"dtype": "float32"}):
        with pytest.raises(CallError, match=next(iter(options))):
            from_nir(made, **options)


def test_shapes_that_only_delayed_edges_tell() -> None:
    one = {
        name: np.ones(1) * value for name, value in {"tau": 5e-4, "r": 5.0, "v_leak": 0.0, "v_threshold": 1.0}.items()
    }
    nodes = {"i": source(3), "n": nir.LIF(**one), "w": nir.Linear(np.eye(3)), "o": sink(3)}
    net = from_nir(nir.NIRGraph(nodes, [("i", "o"), ("n", "w"), ("w", "n"), ("n", "o")], type_check=False))
    assert net.delayed_edges == (("n", "w"),)
    assert net.n.shape == (3,)
    assert net(torch.ones(2, 3))[0].shape == (2, 3)


@pytest.mark.parametrize("names", [("a", "n"), ("n", "a")])
def test_shapes_of_neurons_that_only_feed_each_other(names: tuple[str, str]) -> None:
    few, all_ = names
    nodes = {"i": source(3), few: lif(), all_: lif(3), "o": sink(3)}
    net = from_nir(nir.NIRGraph(nodes, [("i", "o"), (few, all_), (all_, few), (few, "o")], type_check=False))
    assert net(torch.ones(3))[0].shape == (3,)


def test_an_input_that_something_leads_into_while_another_node_gets_nothing() -> None:
    nodes = {"i": source(1), "a": nir.Scale(np.ones(1) * 0.5), "b": shifted(1, 1), "o": sink(1)}
    edges = [("i", "a"), ("a", "i"), ("b", "i"), ("a", "o")]
    net = from_nir(nir.NIRGraph(nodes, edges, type_check=False))
    for layerwise in (False, True):
        ys, _ = net.run(torch.ones(4, 2, 1), layerwise=layerwise)
        assert ys[:, 0, 0].tolist() == ys[:, 1, 0].tolist() == [1.0, 1.5, 1.75, 1.875]


@pytest.mark.parametrize("delay", [1e9, 1e300])
def test_delays_that_nothing_could_hold(delay: float) -> None:
    made = graph([("i", "d"), ("d", "o")], d=nir.Delay(np.array([delay])))
    with pytest.raises(NodeError, match=r"'d'.*'delay'.*room for"):
        from_nir(made)


def test_delays_that_inner_loops_make_needless() -> None:
    """Two inputs are as near; the delay of the loop inside breaks the loop around it, too."""
    edges = [("i", "h"), ("i", "p"), ("p", "n"), ("h", "b"), ("b", "n"), ("n", "b"), ("n", "h"), ("n", "o")]
    net = from_nir(graph(edges, h=gain(0.5), p=gain(0.5), b=gain(0.5), n=lif()), dynamics=Dynamics(feedback="target"))
    assert net.delayed_edges == (("b", "n"),)


def test_several_spikes_of_a_current_in_a_step() -> None:
    one = np.ones(1)
    node = nir.CubaLIF(5e-4 * one, 5e-4 * one, 400 * one, 0 * one, one, 0 * one, one)
    single, several = (
        from_nir(graph([("i", "n"), ("n", "o")], n=node), dynamics=Dynamics(integration="event", multi_spike=multi))
        for multi in (False, True)
    )
    assert single(torch.ones(1))[0].item() == 1.0
    spikes, state = several(torch.ones(1))
    assert spikes.item() == 7.0
    assert 0 <= state["n.v"].item() < 1


@pytest.mark.parametrize("gain_of_current", [8.0, 32.0])
def test_all_spikes_of_a_current_in_a_step_are_counted(gain_of_current: float) -> None:
    one = np.ones(1)
    node = nir.CubaLIF(1e-9 * one, 1e-4 * one, gain_of_current * one, 0 * one, 0.25 * one, 0.125 * one, one)
    rules = Dynamics(integration="event", multi_spike=True)
    spikes, _ = from_nir(graph([("i", "n"), ("n", "o")], n=node), dynamics=rules, dtype=torch.float64)(
        torch.ones(1, dtype=torch.float64)
    )
    period = np.log((gain_of_current - 0.125) / (gain_of_current - 0.25))  # in units of tau_mem, which is dt
    first = np.log(gain_of_current / (gain_of_current - 0.25))
    assert spikes.item() == 1 + np.floor((1 - first) / period)  # the current is there at once


def test_more_spikes_than_a_step_can_look_for_are_an_error() -> None:
    one = np.ones(1)
    node = nir.CubaLIF(5e-4 * one, 5e-4 * one, 400 * one, 0 * one, one, (1 - 1e-6) * one, one)
    net = from_nir(graph([("i", "n"), ("n", "o")], n=node), dynamics=Dynamics(integration="event", multi_spike=True))
    with pytest.raises(DynamicsError, match=r"more than 1,000 times in one step.*smaller dt"):
        net(torch.ones(1))


@pytest.mark.parametrize("kind", [nir.LIF, nir.CubaLIF])
def test_exact_neurons_that_reset_to_their_threshold_go_on(kind: type[nir.NIRNode]) -> None:
    one = np.ones(1)
    taus = {"tau": 5e-4 * one} if kind is nir.LIF else {"tau_syn": 5e-4 * one, "tau_mem": 5e-4 * one}
    node = kind(**taus, r=90 * one, v_leak=0 * one, v_threshold=one, v_reset=one)
    for multi in (False, True):
        rules = Dynamics(integration="event", multi_spike=multi)
        spikes, state = from_nir(graph([("i", "n"), ("n", "o")], n=node), dynamics=rules)(torch.ones(1))
        assert spikes.item() == 1.0
        assert torch.isfinite(state["n.v"]).all()


@pytest.mark.parametrize("metadata", [b"same", "text", 3, np.zeros(0), [("a", 1)]], ids=str)
@pytest.mark.parametrize("name", ["i", "l", "o", "sub", "sub.l", ""])
def test_metadata_that_are_no_dict(name: str, metadata: Any) -> None:
    inner = graph([("i", "l"), ("l", "o")], l=gain(1))
    made = graph([("i", "l"), ("l", "sub"), ("sub", "o")], l=gain(1), sub=inner)
    node: Any = made if not name else inner.nodes["l"] if name == "sub.l" else made.nodes[name]
    node.metadata = metadata
    with pytest.raises(NodeError, match=f"'{name}'.*'metadata'"):
        from_nir(made)
    node.metadata = None
    assert from_nir(made)(torch.ones(1))[0].item() == 1.0


@pytest.mark.parametrize("held", [3, {"dt": "soon"}, {"reset": 3}, {"nothing": 1}, [1]], ids=str)
def test_noted_dynamics_that_can_not_be(held: Any) -> None:
    made = graph([("i", "l"), ("l", "o")], l=gain(1))
    made.metadata = {"nir_bridge": {"dynamics": held}}
    with pytest.raises(DynamicsError):
        from_nir(made)
