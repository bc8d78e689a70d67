"""Each public function of `nir_bridge` that gets something wrong raises a typed error that says what."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from nir_bridge import Dynamics, NIRBridgeError, NIRModule, NodeMap, State, from_nir, to_nir
from nir_bridge.files import read, write
from tests.properties.nir_common import bounded, network, often
from unflatten.testing import graph_code, nir_graphs, nir_nodes, series, states
from unflatten.testing.nir import PRIMITIVES

JUNK: tuple[Any, ...] = (
    None, 3, 1.5, "text", b"bytes", (), [], {}, object(), nir.LIF, np.ones(2), torch.ones(2), True, lambda: 1,
)  # fmt: skip
junk = st.sampled_from(JUNK)

CALLS: dict[str, tuple[Callable[[NIRModule, Any], Any], Callable[[Any], bool]]] = {
    "from_nir(graph)": (lambda _, bad: from_nir(bad), lambda _: True),
    "from_nir(node_map)": (lambda net, bad: from_nir(to_nir(net), bad), lambda bad: bad is not None and bad != {}),
    "from_nir(dynamics)": (lambda net, bad: from_nir(to_nir(net), dynamics=bad), lambda bad: bad is not None),
    "from_nir(dt)": (
        lambda net, bad: from_nir(to_nir(net), dt=bad),
        lambda bad: bad is not None and (isinstance(bad, bool) or not isinstance(bad, int | float)),
    ),
    "from_nir(device)": (lambda net, bad: from_nir(to_nir(net), device=bad), lambda bad: bad not in (None, 3, True)),
    "from_nir(dtype)": (lambda net, bad: from_nir(to_nir(net), dtype=bad), lambda _: True),
    "from_nir(surrogate)": (lambda net, bad: from_nir(to_nir(net), surrogate=bad), lambda bad: not callable(bad)),
    "to_nir(model)": (lambda _, bad: to_nir(bad), lambda _: True),
    "read": (lambda _, bad: read(bad), lambda _: True),
    "write(graph)": (lambda _, bad: write(bad, Path("/nowhere/at/all.nir")), lambda _: True),
    "Dynamics.preset": (lambda _, bad: Dynamics.preset(bad), lambda _: True),
    "Dynamics(dt)": (
        lambda _, bad: Dynamics(dt=bad),
        lambda bad: isinstance(bad, bool) or not isinstance(bad, int | float),
    ),
    "Dynamics(reset)": (lambda _, bad: Dynamics(reset=bad), lambda _: True),
    "Dynamics(output_lag)": (lambda _, bad: Dynamics(output_lag=bad), lambda bad: bad != 3),
    "NodeMap": (lambda _, bad: NodeMap(bad), lambda bad: bad not in (None, {})),
    "NodeMap(factory)": (lambda _, bad: NodeMap({nir.LIF: bad}), lambda bad: not callable(bad)),
    "NodeMap.register": (lambda _, bad: NodeMap().register(bad)(lambda node: None), lambda bad: bad is not nir.LIF),
    "net(x)": (lambda net, bad: net(bad), lambda bad: not isinstance(bad, torch.Tensor)),
    "net(state)": (lambda net, bad: net(torch.ones(1), state=bad), lambda bad: bad is not None),
    "net.run(xs)": (lambda net, bad: net.run(bad), lambda bad: not isinstance(bad, torch.Tensor)),
    "net.run(state)": (lambda net, bad: net.run(torch.ones(2, 1), bad), lambda bad: bad is not None),
    "net.run(time_dim)": (lambda net, bad: net.run(torch.ones(2, 1), time_dim=bad), lambda _: True),
    "net.run(record)": (lambda net, bad: net.run(torch.ones(2, 1), record=bad), lambda bad: bad not in ((), [], {})),
    "net.initial_state": (lambda net, bad: net.initial_state(bad), lambda bad: bad not in ((), [])),
    "State.replace": (lambda net, bad: net.initial_state().replace(bad), lambda bad: not isinstance(bad, dict)),
    "state[path]": (lambda net, bad: net.initial_state()[bad], lambda _: True),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_arguments_of_any_kind(call: str) -> None:
    one = np.ones(1)
    net = from_nir(nir.NIRGraph.from_list(nir.LIF(1e-3 * one, one, 0 * one, one)))
    function, is_bad = CALLS[call]
    for value in JUNK:
        if isinstance(value, np.ndarray | torch.Tensor) or is_bad(value):
            if isinstance(value, torch.Tensor) and call in ("net(x)", "net.run(xs)"):
                continue
            with bounded(), pytest.raises(NIRBridgeError) as caught:
                function(net, value)
            assert str(caught.value)


SPATIAL = {nir.Conv1d: 1, nir.Conv2d: 2, nir.SumPool2d: 2, nir.AvgPool2d: 2}
BAD_FIELDS: tuple[Any, ...] = (
    np.array(np.nan), np.array(["a"]), np.array([1j]), None, "text", {}, object(), [[1.0], [2.0, 3.0]],
)  # fmt: skip


OPTIONAL: dict[str, tuple[Any, ...]] = {
    "input_shape": (None,),
    "bias": (None,),
    "padding": (),
    "input_type": (None, {}),
}


@pytest.mark.parametrize("kind", PRIMITIVES, ids=[kind.__name__ for kind in PRIMITIVES])
@given(st.sampled_from(BAD_FIELDS), st.data())
@often(0.5)
def test_fields_are_named(kind: type[nir.NIRNode], bad: Any, data: st.DataObject) -> None:
    block = data.draw(nir_nodes({1: (2, 5), 2: (2, 4, 3)}.get(SPATIAL.get(kind, 0), (2, 2)), kind))
    node: Any = copy.deepcopy(block.node)
    names = [name for name in vars(node) if name not in ("metadata", "output_type", "input_type")]
    names += ["input_type"] if kind is nir.Flatten else []
    name = data.draw(st.sampled_from(sorted(names)))
    fine = OPTIONAL.get(name, ())
    assume(not any(bad is value or bad == value for value in fine if not isinstance(bad, np.ndarray)))
    setattr(node, name, bad)
    graph = nir.NIRGraph(
        {"i": nir.Input(np.array(block.takes)), "the node": node, "o": nir.Output(np.array(block.gives))},
        [("i", "the node"), ("the node", "o")],
        type_check=False,
    )
    with pytest.raises(NIRBridgeError, match="the node") as caught:
        from_nir(graph)
    assert name in str(caught.value), graph_code(graph)


@given(nir_graphs(), st.data())
@often(2)
def test_states_that_do_not_fit(graph: nir.NIRGraph, data: st.DataObject) -> None:
    net = network(graph)
    xs = data.draw(series(net, steps=2))
    state = data.draw(states(net))
    paths = [path for path, _ in state.tensors()]
    assume(paths)
    path = data.draw(st.sampled_from(paths))
    bad = data.draw(st.sampled_from([None, 3, torch.ones(7, 7, 7, 7, 7), State()]))
    with pytest.raises(NIRBridgeError, match="state"):
        net.run(xs, state.replace({path: bad}))
    with pytest.raises(NIRBridgeError, match=r"no part|has to have the parts"):
        net.run(xs, State(**{**dict(state), "a part that is not there": torch.ones(1)}))


@given(nir_graphs(), st.data())
@often(2)
def test_files_that_are_cut_off(graph: nir.NIRGraph, data: st.DataObject) -> None:

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.nir"
        write(graph, path)
        content = path.read_bytes()
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        with bounded(), pytest.raises(NIRBridgeError, match=r"graph\.nir"):
            from_nir(path)
