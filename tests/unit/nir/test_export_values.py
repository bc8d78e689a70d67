"""Which values end up in a graph: those that the model computes with now, in the order that it has, and no others."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from nir_bridge import from_nir, to_nir, write
from nir_bridge.errors import ExportError, ModuleMapError, NoMeaningError
from tests.support.nir_models import model

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 3)


def weight_norm() -> nn.Module:
    layer: Any = torch.nn.utils.weight_norm(linear())
    with torch.no_grad():
        layer.weight_g.mul_(3)  # its weight is that of before until it is called
    made: nn.Module = layer
    return made


def pruned() -> nn.Module:
    layer: Any = linear()
    prune.l1_unstructured(layer, "weight", 0.5)
    with torch.no_grad():
        layer.weight_orig.mul_(2)
    made: nn.Module = layer
    return made


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(weight_norm, marks=pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")),
        pruned,
        lambda: parametrizations.weight_norm(linear()),
        lambda: parametrizations.spectral_norm(linear()).eval(),
    ],
)
def test_computed_weights_are_those_of_now(make: Any) -> None:
    net = nn.Sequential(make())
    graph = to_nir(net, args=(X,))
    assert torch.allclose(from_nir(graph)(X)[0], net(X))


def test_a_parametrization_that_counts_is_left_alone() -> None:
    net = nn.Sequential(parametrizations.spectral_norm(linear())).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    to_nir(net, args=(X,))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_other_weights_for_each_call_are_other_nodes() -> None:
    call = torch.func.functional_call
    net = model(
        lambda self, x: call(self.a, {"weight": self.a.weight * 2}, x) + call(self.a, {"weight": self.a.weight * 3}, x),
        a=linear(),
    )
    graph = to_nir(net, args=(X,))
    assert sorted(graph.edges) == [("a", "output"), ("a_1", "output"), ("x", "a"), ("x", "a_1")]
    assert torch.allclose(from_nir(graph)(X)[0], net(X), atol=1e-6)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: self.a(x) + torch.randn_like(x),
        lambda self, x: self.a(x) * torch.rand(3),
        lambda self, x: F.linear(x, F.dropout(self.a.weight, 0.5, self.training)),
    ],
)
def test_noise_is_no_constant(forward: Any, batch: int) -> None:
    with pytest.raises(NoMeaningError, match=r"numbers drawn at random.*model.eval\(\)"):
        to_nir(model(forward, a=linear()), args=(X[:batch],))


def test_dropout_of_weights_is_left_out_in_evaluation() -> None:
    net = model(lambda self, x: F.linear(x, F.dropout(self.a.weight, 0.5, self.training)), a=linear()).eval()
    assert torch.equal(from_nir(to_nir(net, args=(X,)))(X)[0], net(X))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("other", [torch.vmap(torch.relu), torch.func.grad(lambda x: (x**2).sum())])
def test_what_torch_does_not_show_is_no_constant(other: Any, batch: int) -> None:
    with pytest.raises(NoMeaningError, match="called on a signal by something that can't be looked into"):
        to_nir(model(lambda self, x: self.a(x) + other(x), a=linear()), args=(X[:batch],))


def two(self: Any, y: Tensor, x: Tensor) -> Any:
    return {"z": self.a(y), "p": y - x}


def test_inputs_and_outputs_keep_their_order(tmp_path: Any) -> None:
    net = model(two, a=linear())
    graph = to_nir(net, args=(X, 2 * X))
    write(graph, tmp_path / "graph.nir")
    for back in (from_nir(graph), from_nir(tmp_path / "graph.nir"), from_nir(to_nir(from_nir(graph)))):
        found, _ = back(X, 2 * X)
        assert list(found) == ["z", "p"]
        assert torch.equal(found["p"], -X)
        assert torch.allclose(found["z"], net.get_submodule("a")(X))


def nested(depth: int) -> nn.Module:
    net: nn.Module = linear()
    for _ in range(depth):
        net = nn.Sequential(net)
    return net


@pytest.mark.parametrize("flat", [False, True])
def test_deep_nesting(flat: bool) -> None:
    before = sys.getrecursionlimit()
    graph = to_nir(nested(300), args=(X,), flatten=flat)
    assert sys.getrecursionlimit() == before
    assert len(graph.nodes) == 3
    assert graph.edges[0][1] == (".".join(["0"] * 300) if flat else "0")


def test_a_model_without_an_end() -> None:
    class Endless(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return self.forward(x) + 1

    with pytest.raises(ExportError, match="calls itself without an end"):
        to_nir(Endless(), args=(X,))


def test_compiled_modules_inside_are_seen_through() -> None:
    inner: Any = torch.compile(nn.Sequential(linear(), nn.Tanh()), backend="eager")
    net = nn.Sequential(linear(), inner)
    graph = to_nir(net, args=(X,), bypass=("1.1",))
    assert graph.edges == [("input", "0"), ("0", "1"), ("1", "output")]
    assert list(graph.nodes["1"].nodes) == ["input", "0", "output"]
    assert list(to_nir(net, args=(X,), bypass=("1",)).nodes) == ["input", "0", "output"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_model() -> None:
    with pytest.raises(ExportError, match="scripted"):
        to_nir(torch.jit.script(nn.Sequential(linear())), args=(X,))


def nowhere(module: nn.Module) -> Any:
    raise KeyError("gone")


def test_a_mapper_that_fails() -> None:
    with pytest.raises(ModuleMapError, match=r"module '0' \(Linear\): the mapper of Linear failed: KeyError: 'gone'"):
        to_nir(nn.Sequential(linear()), {nn.Linear: nowhere}, args=(X,))


def test_nothing_to_leave_out() -> None:
    assert len(to_nir(nn.Sequential(linear()), bypass=None, stateful_modules=None).nodes) == 3


def test_bypass_of_something_else() -> None:
    with pytest.raises(ExportError, match="bypass is a int; give paths"):
        to_nir(nn.Sequential(linear()), args=(X,), bypass=0)
