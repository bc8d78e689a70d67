"""Fields of nodes that can't be, each with an error that names the node and the field."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch

from nir_bridge import Dynamics, from_nir
from nir_bridge.errors import NIRBridgeError, RecordError, ShapeError
from unflatten import source

IMAGE = np.array([1, 6, 6])
KERNEL = np.ones((2, 1, 3, 3), np.float32)
FLAT = np.array([4])


def around(node: nir.NIRNode, shape: Any = IMAGE) -> nir.NIRGraph:
    nodes = {"input": nir.Input(shape), "n": node, "output": nir.Output(None)}
    return nir.NIRGraph(nodes, [("input", "n"), ("n", "output")], type_check=False)


def conv(**fields: Any) -> nir.NIRNode:
    given = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": None, "weight": KERNEL, **fields}
    made = nir.Conv2d((6, 6), KERNEL, 1, 0, 1, 1, np.zeros(2))
    made.input_shape = None
    for name, value in given.items():
        setattr(made, name, value)
    return made


def pool(kernel: Any = (2, 2), stride: Any = (2, 2), padding: Any = (0, 0)) -> nir.NIRNode:
    return nir.AvgPool2d(*(np.array(value) for value in (kernel, stride, padding)))


def flatten(start: int, end: int) -> nir.NIRNode:
    return nir.Flatten({"input": IMAGE}, start, end)


def lif(size: int = 4, **fields: float) -> nir.NIRNode:
    given = {"tau": 5e-4, "r": 5.0, "v_leak": 0.0, "v_threshold": 0.3, **fields}
    return nir.LIF(**{name: np.full(size, value, np.float32) for name, value in given.items()})


@pytest.mark.parametrize(
    ("node", "field", "named"),
    [
        (conv(padding="full"), "padding", "is 'full'; 'same', 'valid' or whole numbers are needed"),
        (conv(padding=b"half"), "padding", "is 'half'"),
        (conv(padding=-1), "padding", r"is \(-1, -1\); it can't be negative"),
        (conv(padding="same", stride=2), "padding", "'same' needs a stride of 1"),
        (conv(stride=0), "stride", r"is \(0, 0\); it has to be at least 1"),
        (conv(dilation=0), "dilation", r"is \(0, 0\); it has to be at least 1"),
        (conv(dilation=4), "weight", r"the kernel is larger than the padded input of shape \(1, 6, 6\)"),
        (conv(weight=np.ones((2, 3, 3, 3))), "weight", r"\(3, 'any', 'any'\), but gets \(1, 6, 6\)"),
        (conv(input_shape=(5, 6)), "input_shape", r"\(1, 5, 6\)"),
        (pool(kernel=(0, 2)), "kernel_size", r"is \(0, 2\); it has to be at least 1"),
        (pool(stride=(1, 0)), "stride", r"is \(1, 0\); it has to be at least 1"),
        (pool(padding=(2, 0)), "padding", r"is \(2, 0\); it has to be from 0 to half of the kernel \(2, 2\)"),
        (pool(kernel=(8, 2)), "kernel_size", r"the window is larger than the padded input of shape \(1, 6, 6\)"),
        (flatten(3, -1), "start_dim", "is 3, but the input has 3 axes"),
        (flatten(2, 1), "start_dim", "axis 2 comes after end_dim, axis 1"),
        (nir.Scale(np.ones(4)), "scale", r"\(4,\)"),
        (lif(), "tau", r"\(4,\)"),
    ],
)
def test_a_field_that_can_not_be(node: nir.NIRNode, field: str, named: str) -> None:
    with pytest.raises(NIRBridgeError, match=rf"'n', field '{field}'.*{named}"):
        from_nir(around(node))


def test_thresholds_of_dynamics_with_several_spikes_are_positive() -> None:
    node = lif(v_threshold=0.0)
    assert from_nir(around(node, FLAT))(torch.ones(1, 4))[0].shape == (1, 4)
    with pytest.raises(
        NIRBridgeError, match=r"'n', field 'v_threshold'.*has to be positive where a step can give several"
    ):
        from_nir(around(node, FLAT), dynamics=Dynamics(multi_spike=True, reset="subtract"))


def test_padding_that_a_file_gives_as_bytes() -> None:
    net = from_nir(around(conv(padding=b"same")))
    assert net(torch.ones(1, 1, 6, 6))[0].shape == (1, 2, 6, 6)
    assert torch.equal(net(torch.ones(1, 1, 6, 6))[0], from_nir(around(conv(padding=1)))(torch.ones(1, 1, 6, 6))[0])


def test_an_output_that_declares_another_shape() -> None:
    graph = around(nir.Linear(np.eye(4)), FLAT)
    graph.nodes["output"] = nir.Output(np.array([3]))
    with pytest.raises(
        ShapeError, match=r"Output 'output', field 'output_type'.*declares the shape \(3,\), but gets \(4,\)"
    ):
        from_nir(graph)


def grouped() -> Any:
    inner = around(nir.Linear(np.eye(4, dtype=np.float32)), FLAT)
    nodes = {"input": nir.Input(FLAT), "g": inner, "l": lif(), "output": nir.Output(FLAT)}
    return from_nir(nir.NIRGraph(nodes, [("input", "g"), ("g", "l"), ("l", "output")]))


def test_a_group_without_state_by_itself() -> None:
    group = grouped().g
    text = source.text_of(group)
    assert text.endswith('        check("x", x, None, 4)\n        return self.n(x)\n')
    with pytest.raises(RecordError, match="only the whole network records"):
        group.run(torch.ones(3, 2, 4), record=("n",))
    with pytest.raises(RecordError, match=r"nothing called 'none' to record; there are .*g\.n"):
        grouped().run(torch.ones(3, 2, 4), record=("none",))


def test_sums_are_recorded_layer_by_layer_only() -> None:
    nodes = {"input": nir.Input(FLAT), "a": nir.Scale(np.ones(4)), "b": nir.Scale(np.full(4, 2.0)), "l": lif()}
    edges = [("input", "a"), ("input", "b"), ("a", "output"), ("b", "output"), ("l", "output"), ("a", "l")]
    net = from_nir(nir.NIRGraph({**nodes, "output": nir.Output(FLAT)}, edges))
    found = net.run(torch.ones(3, 2, 4), record=("output",))[2]["output"]
    assert torch.equal(found, net.run(torch.ones(3, 2, 4))[0])
    with pytest.raises(RecordError, match="'output' adds values up and has no module"):
        net.run(torch.ones(3, 2, 4), record=("output",), layerwise=False)
