"""Every primitive against torch, any batch axes, and fields that can't be used."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from nir_bridge import from_nir
from nir_bridge.errors import NodeError, ShapeError
from tests.support.nir_graphs import gain, graph, lif, sink, source

RNG = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def net_of(node: nir.NIRNode, shape: tuple[int, ...], **options: Any) -> Any:
    made = nir.NIRGraph(
        {"i": source(*shape), "n": node, "o": nir.Output(None)}, [("i", "n"), ("n", "o")], type_check=False
    )
    return from_nir(made, **options)


def compare(node: nir.NIRNode, shape: tuple[int, ...], expected: Any) -> nn.Module:
    """Compares a node with a function, for no, one and two batch axes, in steps and in a series."""
    net = net_of(node, shape)
    for batch in ((), (3,), (2, 3)):
        x = torch.randn(4, *batch, *shape)
        y = torch.stack([expected(step.reshape(-1, *shape)) for step in x])
        y = y.reshape(4, *batch, *y.shape[2:])
        torch.testing.assert_close(net.run(x)[0], y)
        torch.testing.assert_close(net.run(x, layerwise=False)[0], y)
    return net.n


def test_linear_and_affine() -> None:
    w, b = array(3, 5), array(3)
    module = compare(nir.Affine(w, b), (5,), lambda x: functional.linear(x, torch.tensor(w), torch.tensor(b)))
    assert type(module) is nn.Linear
    compare(nir.Linear(w), (5,), lambda x: functional.linear(x, torch.tensor(w)))


def test_weights_of_higher_rank() -> None:
    w, b = array(2, 4, 3, 5), array(2, 4, 3)
    compare(
        nir.Affine(w, b), (2, 4, 5), lambda x: torch.einsum("abij,nabj->nabi", torch.tensor(w), x) + torch.tensor(b)
    )


@pytest.mark.parametrize(("padding", "stride"), [(1, 2), ("same", 1), ("valid", 2), (0, 1)])
def test_conv1d(padding: Any, stride: int) -> None:
    w, b = array(4, 2, 3), array(4)
    tensors = (torch.tensor(w), torch.tensor(b))
    node = nir.Conv1d(None, w, stride, padding, 2, 2, b)
    module = compare(node, (4, 9), lambda x: functional.conv1d(x, *tensors, stride, padding, 2, 2))
    assert type(module) is nn.Conv1d


@pytest.mark.parametrize(("padding", "stride"), [((1, 0), (2, 1)), ("same", 1), ("valid", (1, 2)), (2, 2)])
def test_conv2d(padding: Any, stride: Any) -> None:
    w, b = array(4, 1, 3, 2), array(4)
    tensors = (torch.tensor(w), torch.tensor(b))
    node = nir.Conv2d(None, w, stride, padding, (1, 2), 4, b)
    module = compare(node, (4, 7, 8), lambda x: functional.conv2d(x, *tensors, stride, padding, (1, 2), 4))
    assert type(module) is nn.Conv2d


def test_pooling() -> None:
    size, stride, pad = np.array([3, 2]), np.array([2, 1]), np.array([1, 0])
    compare(nir.AvgPool2d(size, stride, pad), (2, 6, 5), lambda x: functional.avg_pool2d(x, (3, 2), (2, 1), (1, 0)))
    compare(nir.SumPool2d(size, stride, pad), (2, 6, 5), lambda x: functional.avg_pool2d(x, (3, 2), (2, 1), (1, 0)) * 6)


def test_sum_pooling_has_a_gradient_at_zero() -> None:
    x = torch.zeros(1, 4, 4, requires_grad=True)
    net_of(nir.SumPool2d(2, 2, 0), (1, 4, 4))(x)[0].sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.ones(1, 4, 4))


@pytest.mark.parametrize(
    ("start", "end", "shape"), [(0, -1, (24,)), (1, 2, (2, 12)), (0, 1, (6, 4)), (-1, -1, (2, 3, 4))]
)
def test_flatten_leaves_batch_axes_alone(start: int, end: int, shape: tuple[int, ...]) -> None:
    node = nir.Flatten({"input": np.array([2, 3, 4])}, start, end)
    module = compare(node, (2, 3, 4), lambda x: x.reshape(x.shape[0], *shape))
    assert type(module) is nn.Flatten


def test_scale_and_threshold() -> None:
    s = array(3)
    compare(nir.Scale(s), (3,), lambda x: x * torch.tensor(s))
    compare(nir.Threshold(s), (3,), lambda x: (x > torch.tensor(s)).float())


@pytest.mark.parametrize("layerwise", [True, False])
def test_delays_are_rounded_to_steps_for_each_element(layerwise: bool) -> None:
    net = net_of(nir.Delay(np.array([0.0, 1e-4, 2.6e-4])), (3,))
    xs = torch.arange(1.0, 16.0).reshape(5, 3)
    first, state = net.run(xs[:2], layerwise=layerwise)
    last, _ = net.run(xs[2:], state, layerwise=layerwise)
    expected = torch.stack(
        [xs[:, 0], torch.cat([torch.zeros(1), xs[:-1, 1]]), torch.cat([torch.zeros(3), xs[:2, 2]])], 1
    )
    assert torch.equal(torch.cat([first, last]), expected)


@pytest.mark.parametrize("layerwise", [True, False])
def test_a_delay_in_a_cycle(layerwise: bool) -> None:
    made = graph([("i", "d"), ("d", "w"), ("w", "d"), ("d", "o")], d=nir.Delay(np.array([1e-4])), w=gain(2))
    ys, _ = from_nir(made).run(torch.tensor([1.0, 0, 0, 0, 0])[:, None], layerwise=layerwise)
    assert ys[:, 0].tolist() == [0, 1, 0, 2, 0]


def test_integrators() -> None:
    xs = torch.ones(3, 1)
    made = graph([("i", "n"), ("n", "o")], n=nir.I(np.array([2.0])))
    assert from_nir(made).run(xs)[0][:, 0].tolist() == [2.0, 4.0, 6.0]
    assert from_nir(made, dynamics="nengo", dt=0.5).run(xs)[0][:, 0].tolist() == [1.0, 2.0, 3.0]


def test_constants_are_broadcast() -> None:
    node = nir.LIF(np.array(1e-3), np.array(10.0), np.array(0.0), np.array(1.0))
    net = net_of(node, (2, 3))
    assert net(torch.full((4, 2, 3), 2.0))[0].shape == (4, 2, 3)
    assert net.initial_state((4,)).n.v.shape == (4, 2, 3)
    channels = nir.IF(np.ones((2, 1)), np.ones((2, 1)))
    assert net_of(channels, (2, 3))(torch.full((2, 3), 2.0))[0].sum().item() == 6.0


@pytest.mark.parametrize(
    "weight",
    [
        np.diag([3.0, 3.0])[::-1, ::-1],
        np.diag([3, 3]).astype(">f4"),
        np.diag([3, 3]),
        np.asfortranarray(np.diag([3, 3]).astype(np.float16)),
        np.diag([3, 3]).astype(np.uint16),
        np.diag([3.0, 3.0]).astype(np.longdouble),
    ],
)
def test_arrays_of_any_layout(weight: Any) -> None:
    module = from_nir(nir.Linear(weight))
    assert module(torch.ones(2)).tolist() == [3.0, 3.0]
    assert module.weight.dtype == torch.float32
    module.weight.data.zero_()
    assert weight.sum() == 6


def test_a_single_node_is_a_plain_module() -> None:
    neuron = from_nir(lif(2))
    spikes, state = neuron(torch.full((3, 2), 2.0))
    assert spikes.tolist() == [[1.0, 1.0]] * 3
    assert neuron(torch.zeros(3, 2), state)[0].sum().item() == 0


def test_constants_are_buffers_or_parameters() -> None:
    made = graph([("i", "n"), ("n", "o")], n=lif())
    assert dict(from_nir(made).named_parameters()) == {}
    learned = from_nir(made, learn_dynamics=True)
    assert sorted(dict(learned.named_parameters())) == ["n.r", "n.tau", "n.v_leak", "n.v_reset", "n.v_threshold"]
    ys, _ = learned.run(torch.full((5, 1), 0.4))
    ys.sum().backward()
    assert learned.n.tau.grad.item() != 0


def test_a_constant_that_is_written_counts_at_once() -> None:
    net = from_nir(graph([("i", "n"), ("n", "o")], n=nir.LI(np.array([1e-3]), np.array([10.0]), np.array([0.0]))))
    assert net(torch.ones(1))[0].item() == pytest.approx(1.0)
    with torch.no_grad():
        net.n.r.mul_(2)
    assert net(torch.ones(1))[0].item() == pytest.approx(2.0)
    net.n.r = torch.tensor([30.0])
    assert net(torch.ones(1))[0].item() == pytest.approx(3.0)
    net.load_state_dict({**net.state_dict(), "n.v_leak": torch.tensor([10.0])})
    assert net(torch.ones(1))[0].item() == pytest.approx(4.0)


@pytest.mark.parametrize("surrogate", ["fast_sigmoid", "atan", "triangle", "straight_through", lambda u: u * 0 + 0.5])
def test_spikes_are_exact_and_have_a_gradient(surrogate: Any) -> None:
    made = graph([("i", "n"), ("n", "o")], n=lif(v_threshold=1.0))
    x = torch.tensor([[0.9], [1.1]], requires_grad=True)
    y, _ = from_nir(made, surrogate=surrogate)(x)
    y.sum().backward()
    assert y[:, 0].tolist() == [0.0, 1.0]
    assert x.grad is not None
    assert (x.grad > 0).all()
    if callable(surrogate) or surrogate == "straight_through":
        assert torch.allclose(x.grad, torch.full((2, 1), 0.5 if callable(surrogate) else 1.0))


BAD = [
    (lif(tau=float("nan")), "tau.*NaN"),
    (lif(tau=0.0), "tau.*positive"),
    (lif(tau=-1.0), "tau.*positive"),
    (lif(v_threshold=float("nan")), "v_threshold"),
    (nir.Affine(np.ones((2, 1)), np.ones(3)), "bias"),
    (nir.Linear(np.ones((2, 3))), "weight"),
    (nir.Linear(np.array([["a"]])), "weight"),
    (nir.Conv1d(None, np.ones((2, 1, 1, 1)), 1, 0, 1, 1, np.ones(2)), "weight"),
    (nir.Conv1d(None, np.ones((3, 1, 1)), 1, 0, 1, 2, np.ones(3)), "groups"),
    (nir.Conv1d(None, np.ones((2, 1, 1)), 2, "same", 1, 1, np.ones(2)), "padding"),
    (nir.Delay(np.array([-1.0])), "delay"),
    (nir.Flatten({"input": np.array([4])}, 0, -1), "input_type"),
    (nir.SumPool2d(2, 2, 0), "kernel_size"),
]


@pytest.mark.parametrize(("node", "named"), BAD)
def test_fields_that_can_not_be_used_are_named(node: nir.NIRNode, named: str) -> None:
    with pytest.raises(NodeError, match=f"'n'.*{named}"):
        from_nir(graph([("i", "n"), ("n", "o")], n=node))


def test_shapes_that_contradict() -> None:
    made = nir.NIRGraph(
        {"i": source(2), "a": nir.Linear(np.ones((3, 2))), "n": gain(1, 2), "o": sink(3)},
        [("i", "a"), ("a", "n"), ("n", "o")],
        type_check=False,
    )
    with pytest.raises(ShapeError, match=r"'n'.*\(2,\).*\(3,\)"):
        from_nir(made)
    made.edges[:] = [("i", "a"), ("a", "o"), ("i", "o")]
    with pytest.raises(ShapeError, match=r"'o'.*differ"):
        from_nir(made)


def test_a_bias_for_other_channels() -> None:
    with pytest.raises(ShapeError, match=r"bias.*2 channels"):
        from_nir(nir.Conv1d(None, np.ones((2, 1, 1)), 1, 0, 1, 1, np.ones(3)))
