"""Models as graphs: hierarchy, names, shapes, and the model that stays as it was."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch
from torch import nn

from nir_bridge import from_nir, to_nir
from nir_bridge.errors import ExportError, ModuleMapError, NoMeaningError
from tests.support.nir_models import difference, kinds, model, neuron

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.drop = nn.Dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.drop(self.fc(x))
        return y + x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Sequential(nn.Linear(4, 3), nn.Identity())

    def forward(self, x: torch.Tensor) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_modules_become_nested_graphs() -> None:
    graph = to_nir(Net().eval(), args=(X,))
    block = {"x": "Input", "fc": "Affine", "output": "Output"}
    assert kinds(graph) == {
        "x": "Input",
        "blocks.0": "NIRGraph",
        **{f"blocks.0/{name}": kind for name, kind in block.items()},
        "blocks.1": "NIRGraph",
        **{f"blocks.1/{name}": kind for name, kind in block.items()},
        "head": "NIRGraph",
        "head/input": "Input",
        "head/0": "Affine",
        "head/output": "Output",
        "output": "Output",
    }
    assert graph.edges == [("x", "blocks.0"), ("blocks.0", "blocks.1"), ("blocks.1", "head"), ("head", "output")]
    assert graph.nodes["blocks.0"].edges == [("x", "fc"), ("fc", "output"), ("x", "output")]
    assert difference(Net().eval(), X) == 0.0


def test_a_flat_graph_has_dotted_names() -> None:
    graph = to_nir(Net().eval(), args=(X,), flatten=True)
    assert list(graph.nodes) == ["x", "blocks.0.fc", "blocks.1.fc", "head.0", "output"]
    assert sorted(graph.edges) == [
        ("blocks.0.fc", "blocks.1.fc"),
        ("blocks.0.fc", "head.0"),
        ("blocks.1.fc", "head.0"),
        ("head.0", "output"),
        ("x", "blocks.0.fc"),
        ("x", "blocks.1.fc"),
        ("x", "head.0"),
    ]
    assert difference(Net().eval(), X, flatten=True) < 1e-6


def test_shapes_are_known_with_and_without_an_example() -> None:
    for graph in (to_nir(Net()), to_nir(Net(), args=(X,))):
        assert graph.nodes["x"].input_type["input"].tolist() == [4]
        assert graph.nodes["output"].output_type["output"].tolist() == [3]


def test_a_network_that_starts_with_a_convolution() -> None:
    net = nn.Sequential(nn.Conv2d(2, 4, (3, 2), groups=2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4 * 3 * 3, 5))
    graph = to_nir(net, args=(torch.ones(1, 2, 8, 7),))
    assert graph.nodes["input"].input_type["input"].tolist() == [2, 8, 7]
    assert graph.nodes["0"].input_shape == (8, 7)
    assert difference(net, torch.randn(3, 2, 8, 7)) < 1e-6
    assert to_nir(net[:2]).nodes["input"].input_type["input"] is None
    with pytest.raises(ExportError, match=r"args=\(x,\)"):
        to_nir(net)


def test_batch_axes() -> None:
    assert to_nir(nn.Linear(4, 2), args=(X[0],), batch_dims=0).nodes["linear"].weight.shape == (2, 4)
    assert to_nir(nn.Linear(4, 2), args=(X[None],), batch_dims=2).nodes["linear"].weight.shape == (2, 4)
    assert to_nir(nn.Linear(4, 2), args=(X[None],)).nodes["linear"].weight.shape == (2, 2, 4)
    with pytest.raises(ExportError, match="batch_dims"):
        to_nir(nn.Linear(4, 2), args=(X[0],))


def test_inputs_and_outputs_have_the_names_of_the_model() -> None:
    net = model(lambda self, x, y: {"p": self.a(x), "q": self.b(y) + x}, a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    graph = to_nir(net, args=(X, X))
    assert list(graph.nodes) == ["x", "y", "a", "b", "p", "q"]
    assert sorted(graph.edges) == [("a", "p"), ("b", "q"), ("x", "a"), ("x", "q"), ("y", "b")]
    net = model(lambda self, x: (self.a(x), self.b(x)), a=nn.Linear(4, 2), b=nn.Linear(4, 2))
    assert [name for name, node in to_nir(net).nodes.items() if isinstance(node, nir.Output)] == [
        "a_output",
        "b_output",
    ]
    assert difference(net, X) == 0.0


def test_inputs_that_nothing_uses_and_modules_that_are_never_called() -> None:
    net = model(lambda self, x, y: self.a(x), a=nn.Linear(4, 4), never=nn.ReLU())
    assert list(to_nir(net, args=(X, X)).nodes) == ["x", "y", "a", "output"]


def test_inputs_straight_to_outputs() -> None:
    graph = to_nir(model(lambda self, x, y: (y, x)), args=(X, X))
    assert len(graph.outputs) == 2
    assert [source for source, _ in graph.edges] == ["y", "x"]


def test_names_that_mean_something_else() -> None:
    names = ("for", "1", "a%2Eb", "state", "x", "output", "a/b", " ")

    def forward(self: nn.Module, x: Any) -> Any:
        for child in self.children():
            x = child(x)
        return x

    net = model(forward, **{name: nn.Linear(4, 4) for name in names})
    graph = to_nir(net, args=(X,))
    assert [name for name, node in graph.nodes.items() if isinstance(node, nir.Affine)] == list(names)
    assert difference(net, X) == 0.0


def test_a_module_that_is_called_twice_is_one_node() -> None:
    graph = to_nir(model(lambda self, x: self.a(self.a(x)), a=nn.Linear(4, 4)))
    assert graph.nodes["a"] is graph.nodes["a_1"]
    net = model(lambda self, x: self.a(self.a(x)), a=nn.Sequential(nn.Linear(4, 4)))
    graph = to_nir(net)
    assert graph.nodes["a"] is graph.nodes["a_1"]
    assert difference(net, X) == 0.0
    with pytest.raises(ExportError, match=r"module 'a' \(LIF\): it is called 2 times in one step, and has a state"):
        to_nir(model(lambda self, x: self.a(self.a(x)[0])[0], a=neuron()))


def test_the_model_stays_as_it_was() -> None:
    calls: list[int] = []
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2)).train()
    net[3].register_forward_hook(lambda *_: calls.append(1))
    net(X).sum().backward()
    grads = [parameter.grad for parameter in net.parameters()]
    state = {name: value.clone() for name, value in net.state_dict().items()}
    random = torch.get_rng_state()
    attributes = [set(vars(module)) for module in net.modules()]
    graph = to_nir(net, bypass=(nn.BatchNorm1d,))
    assert torch.equal(random, torch.get_rng_state())
    assert [set(vars(module)) for module in net.modules()] == attributes
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert all(module.training for module in net.modules())
    assert all(one is other for one, other in zip(grads, (p.grad for p in net.parameters()), strict=True))
    graph.nodes["0"].weight[:] = 7
    assert torch.equal(net.get_parameter("0.weight"), state["0.weight"])
    x = X.clone()
    to_nir(model(lambda self, x: self.a(x.add_(1)), a=nn.Linear(4, 4)), args=(x,))
    assert torch.equal(x, X)


def test_parameters_of_any_kind() -> None:
    half = to_nir(nn.Linear(4, 4).bfloat16()).nodes["linear"]
    assert half.weight.dtype == np.float32
    double = to_nir(nn.Linear(4, 4).double()).nodes["linear"]
    assert double.weight.dtype == np.float64
    with pytest.raises(ExportError, match="meta"):
        to_nir(nn.Linear(4, 4, device="meta"))


def test_the_users_map_wins() -> None:
    class Mine(nn.Linear):
        pass

    net = nn.Sequential(Mine(4, 4), nn.ReLU(), nn.Linear(4, 4))
    node = nir.Scale(np.ones(4))
    graph = to_nir(net, {nn.Linear: lambda _: node, nn.ReLU: None})
    assert kinds(graph) == {"input": "Input", "0": "Scale", "2": "Scale", "output": "Output"}
    graph = to_nir(net, {Mine: lambda _: node, nn.ReLU: lambda _: None})
    assert kinds(graph) == {"input": "Input", "0": "Scale", "2": "Affine", "output": "Output"}
    assert to_nir(nn.Linear(2, 2), {nn.Linear: lambda m: nir.Affine(m.weight, m.bias)}).nodes["linear"].bias.shape == (
        2,
    )


def test_a_subclass_with_a_forward_of_its_own_is_looked_into() -> None:
    class Twice(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 2

    graph = to_nir(nn.Sequential(Twice(4, 2)))
    assert kinds(graph)["0/linear"] == "Affine"
    assert kinds(graph)["0/mul"] == "Scale"
    assert difference(nn.Sequential(Twice(4, 2)), X) == 0.0


def test_bypass() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 4))
    orders: list[Any] = [("1", nn.Tanh, nn.BatchNorm1d), (nn.BatchNorm1d, "2", nn.ReLU)]
    for order in orders:
        graph = to_nir(net, bypass=order)
        assert graph.edges == [("input", "0"), ("0", "4"), ("4", "output")]
    one: list[Any] = ["1", nn.ReLU, net[1], [net[1]], {net[1]}]
    for only in one:
        assert list(to_nir(net[:2], bypass=only).nodes) == ["input", "0", "output"]
    with pytest.raises(ExportError, match="bypass: 3 is neither the path of a module nor a class of modules"):
        to_nir(net, bypass=[3])
    beside = model(lambda self, x: self.t(self.r(self.a(x))) + x, a=nn.Linear(4, 4), r=nn.ReLU(), t=nn.Tanh())
    assert to_nir(beside, bypass=["t", "r"]).edges == [("x", "a"), ("a", "output"), ("x", "output")]
    with pytest.raises(ExportError, match=r"has no module 'blocks\.7'\. Did you mean 'blocks."):
        to_nir(Net(), bypass=("blocks.7",))
    with pytest.raises(ExportError, match="changes the shape"):
        to_nir(nn.Sequential(nn.Linear(4, 2)), bypass=("0",))


@pytest.mark.parametrize(
    ("wrong", "error", "named"),
    [
        (lambda: to_nir(3), ExportError, "can't export a int"),  # type: ignore[arg-type]
        (lambda: to_nir(nn.Linear(2, 2), {nn.Linear: 3}), ModuleMapError, "can't be called"),  # type: ignore[dict-item]
        (lambda: to_nir(nn.Linear(2, 2), {nn.Linear: lambda _: 3}), ModuleMapError, "gave a int"),
        (lambda: to_nir(nn.Linear(2, 2), {"a": None}), ModuleMapError, "'a' is no class"),  # type: ignore[dict-item]
        (lambda: to_nir(model(lambda self, x, y: x + y), args=(X,)), ExportError, "missing 1 required"),
        (lambda: to_nir(nn.Bilinear(4, 4, 2)), NoMeaningError, "the model .Bilinear.: a product of two signals"),
        (lambda: to_nir(nn.GRU(4, 4), args=(X,)), NoMeaningError, "torch.nn.GRU: lambda"),
        (lambda: to_nir(nn.BatchNorm1d(4), args=(X,)), NoMeaningError, "model.eval"),
        (lambda: to_nir(nn.Sequential(nn.ReLU()), args=(X,)), NoMeaningError, "'0' .ReLU.: torch function 'relu'"),
        (lambda: to_nir(nn.LPPool2d(2, 2), args=(torch.ones(1, 1, 4, 4),)), NoMeaningError, "norm_type=2"),
    ],
)
def test_errors_name_what_and_where(wrong: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        wrong()


def test_networks_of_from_nir_inside_of_models() -> None:
    inner = from_nir(nir.NIRGraph.from_list(nir.Linear(np.eye(4, dtype=np.float32)), *[]))

    def forward(self: Any, x: Any, state: Any = None) -> Any:
        return self.net(self.pre(x), state)

    graph = to_nir(model(forward, net=inner, pre=nn.Linear(4, 4)), args=(X,))
    assert kinds(graph)["net/linear"] == "Linear"
    assert graph.edges == [("x", "pre"), ("pre", "net"), ("net", "output")]


def test_outputs_that_are_called_like_those_that_nir_adds() -> None:
    net = model(lambda self, x: {"output_a": self.a(x), "y": self.b(x)}, a=nn.Linear(4, 2), b=nn.Linear(4, 2))
    assert sorted(from_nir(to_nir(net))(X)[0]) == ["output_a", "y"]


def test_in_inference_mode_and_without_values() -> None:
    with torch.inference_mode():
        assert kinds(to_nir(nn.Linear(4, 2), args=(X,)))["linear"] == "Affine"
    with pytest.raises(ExportError, match="without values"):
        to_nir(nn.Sequential(nn.LazyLinear(3)), args=(X,))


def test_parameters_that_are_computed() -> None:
    net = nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)))
    assert difference(net, X) == 0.0


def test_hooks_that_change_outputs_count() -> None:
    net = nn.Sequential(nn.Linear(4, 2))
    net[0].register_forward_hook(lambda _module, _args, output: output * 2)
    assert kinds(to_nir(net)) == {"input": "Input", "0": "Affine", "mul": "Scale", "output": "Output"}
    assert difference(net, X) == 0.0
