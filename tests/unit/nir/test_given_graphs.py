"""Modules that are mapped to whole graphs: which have a state, and which of their results are outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import nir
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nir_bridge import from_nir, to_nir
from nir_bridge.errors import ExportError, NoMeaningError
from tests.support.nir_models import difference, kinds, model

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def graph(
    nodes: dict[str, nir.NIRNode], *edges: tuple[str, str], outputs: tuple[str, ...] = ("output",)
) -> nir.NIRGraph:
    ends = {name: nir.Output(np.array([4])) for name in outputs}
    return nir.NIRGraph({"input": nir.Input(np.array([4])), **nodes, **ends}, list(edges), type_check=False)


def linear(factor: float = 1) -> nir.NIRNode:
    return nir.Linear(factor * np.eye(4, dtype=np.float32))


def one(node: nir.NIRNode) -> nir.NIRGraph:
    return graph({"w": node}, ("input", "w"), ("w", "output"))


def twice() -> nir.NIRGraph:
    inner = one(linear(0.5))
    return graph({"p": inner, "q": inner}, ("input", "p"), ("p", "q"), ("q", "output"))


def beside() -> nir.NIRGraph:
    edges = (("input", "p"), ("input", "q"), ("p", "r"), ("q", "r"), ("r", "output"))
    return graph({"p": linear(0.5), "q": linear(), "r": linear()}, *edges)


def cycle() -> nir.NIRGraph:
    return graph({"w": linear()}, ("input", "w"), ("w", "w"), ("w", "output"))


def lif() -> nir.NIRNode:
    return nir.LIF(*[np.full(4, value, np.float32) for value in (5e-4, 5.0, 0.0, 0.3)])


@pytest.mark.parametrize(("make", "factor"), [(lambda: one(linear(3)), 9), (twice, 1 / 16), (beside, 2.25)])
def test_a_graph_without_state_may_be_called_twice(make: Callable[[], nir.NIRGraph], factor: float) -> None:
    net = model(lambda self, x: self.t(self.t(x)), t=nn.Tanh())
    made = to_nir(net, {nn.Tanh: lambda _: make()}, args=(X,))
    assert made.edges == [("x", "t"), ("t", "t_1"), ("t_1", "output")]
    assert made.nodes["t"] is made.nodes["t_1"]
    assert torch.allclose(from_nir(made)(X)[0], X * factor)


@pytest.mark.parametrize("make", [cycle, lambda: one(lif()), lambda: one(one(lif())), lambda: one(cycle())])
def test_a_graph_with_state_may_not(make: Callable[[], nir.NIRGraph]) -> None:
    net = model(lambda self, x: self.t(self.t(x)), t=nn.Tanh())
    with pytest.raises(ExportError, match=r"module 't' \(Tanh\): it is called 2 times in one step, and has a state"):
        to_nir(net, {nn.Tanh: lambda _: make()}, args=(X,))
    once = model(lambda self, x: self.t(x), t=nn.Tanh())
    assert kinds(to_nir(once, {nn.Tanh: lambda _: make()}, args=(X,)))["t"] == "NIRGraph"


@dataclass
class Pair:
    p: Tensor
    q: Tensor


class Couple(NamedTuple):
    p: Tensor
    q: Tensor


class Several(nn.Module):
    """A module that gives its input, twice its input and a state, in some container."""

    def __init__(self, pack: Callable[[Tensor, Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.pack = pack

    def forward(self, x: Tensor) -> Any:
        return self.pack(x * 1, x * 2, x * 3)


def two_outputs(_: nn.Module) -> nir.NIRGraph:
    nodes = {"v": linear(2)}
    return graph(nodes, ("input", "v"), ("v", "q"), ("input", "p"), outputs=("p", "q"))


PACKED: list[tuple[Callable[..., Any], Callable[[Any], Any]]] = [
    (lambda p, q, s: (p, q), lambda r: r),
    (lambda p, q, s: (p, q, s), lambda r: r[:2]),
    (lambda p, q, s: {"q": q, "s": s, "p": p}, lambda r: (r["p"], r["q"])),
    (lambda p, q, s: ({"q": q, "p": p}, s), lambda r: (r[0]["p"], r[0]["q"])),
    (lambda p, q, s: Pair(p, q), lambda r: (r.p, r.q)),
    (lambda p, q, s: Couple(p, q), lambda r: (r.p, r.q)),
]


@pytest.mark.parametrize(("pack", "unpack"), PACKED)
def test_outputs_of_a_graph_are_found_in_any_container(pack: Any, unpack: Any) -> None:
    def forward(self: Any, x: Tensor) -> Any:
        y, z = unpack(self.t(x))
        return {"z": z, "y": y}

    made = to_nir(model(forward, t=Several(pack)), {Several: two_outputs}, args=(X,))
    assert made.edges == [("x", "t"), ("t.q", "z"), ("t.p", "y")]
    found = from_nir(made)(X)[0]
    assert torch.equal(found["y"], X)
    assert torch.equal(found["z"], 2 * X)


STATES: list[tuple[Callable[..., Any], Callable[[Any], Any]]] = [
    (lambda p, q, s: (p, q, s), lambda r: r[2]),
    (lambda p, q, s: {"q": q, "s": s, "p": p}, lambda r: r["s"]),
    (lambda p, q, s: ({"q": q, "p": p}, s), lambda r: r[1]),
]


@pytest.mark.parametrize(("pack", "state"), STATES)
def test_what_else_such_a_module_gives_is_its_state(pack: Any, state: Any) -> None:
    net = model(lambda self, x: state(self.t(x)) + 1, t=Several(pack))
    with pytest.raises(NoMeaningError, match="add uses the state of a module as a signal"):
        to_nir(net, {Several: two_outputs}, args=(X,))


def test_a_module_that_gives_no_tensor() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        self.t(x)
        return x

    net = model(forward, t=Several(lambda p, q, s: None))
    with pytest.raises(ExportError, match=r"module 't' \(Several\): it returned a NoneType without a tensor"):
        to_nir(net, {Several: lambda _: linear()}, args=(X,))
    assert to_nir(net, bypass=Several, args=(X,)).edges == [("x", "output")]


class WithState(nn.Module):
    def forward(self, x: Tensor, s: Tensor) -> Tensor:
        return x + s


def test_a_module_whose_only_signal_is_its_state() -> None:
    net = model(lambda self, x: self.t(torch.ones(2, 4), x), t=WithState())
    with pytest.raises(NoMeaningError, match=r"module 't' \(WithState\): none of its inputs is a signal"):
        to_nir(net, {WithState: lambda _: linear()}, args=(X,), stateful_modules={WithState: "s"})


class Doubling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)


def test_a_mapped_module_that_writes_to_its_input() -> None:
    net = model(lambda self, x: self.t(self.a(x)), a=nn.Linear(4, 4), t=Doubling())
    made = to_nir(net, {Doubling: lambda _: linear(2)}, args=(X,))
    assert made.edges == [("x", "a"), ("a", "t"), ("t", "output")]
    assert torch.equal(from_nir(made)(X)[0], net(X))

    def seen_before(self: Any, x: Tensor) -> Tensor:
        y = self.a(x)
        view = y.view(-1, 4)
        self.t(y)
        return view

    with pytest.raises(ExportError, match=r"wrote to another one that shares its memory"):
        to_nir(model(seen_before, a=nn.Linear(4, 4), t=Doubling()), {Doubling: lambda _: linear(2)}, args=(X,))


def test_containers_of_the_users_own_around_inputs_and_outputs() -> None:
    net = model(lambda self, x: Pair(self.a(x.p), x.q), a=nn.Linear(4, 4))
    assert to_nir(net, args=(Pair(X, X),)).edges == [("x.p", "a"), ("a", "p"), ("x.q", "q")]
    net = model(lambda self, x: self.a(x["p"]) + x["q"], a=nn.Linear(4, 4))
    assert to_nir(net, args=({"p": X, "q": X},)).edges == [("x.p", "a"), ("a", "output"), ("x.q", "output")]


def test_constants_that_are_folded_into_what_was_given_stay_nodes() -> None:
    net = model(lambda self, x: self.t(x) + 1, t=nn.Identity())
    made = to_nir(net, {nn.Identity: lambda _: linear(2)}, args=(X,))
    assert kinds(made) == {"x": "Input", "t": "Linear", "add": "Affine", "output": "Output"}
    assert difference(model(lambda self, x: 2 * x + 1), X) == 0.0
