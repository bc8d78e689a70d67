"""Models with a state, and models that loop over time."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch
from torch import nn

from nir_bridge import from_nir, to_nir
from nir_bridge.errors import ExportError, NoMeaningError
from tests.support.nir_models import kinds, model, neuron

XS = torch.linspace(0, 3, 12 * 2 * 4).reshape(12, 2, 4)


class Recurrent(nn.Module):
    """One step, whose spikes come back to it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.rec, self.lif = nn.Linear(4, 4, bias=False), nn.Linear(4, 4), neuron()

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        last, inner = (torch.zeros_like(x), None) if state is None else state
        spikes, inner = self.lif(self.fc(x) + self.rec(last), inner)
        return spikes, (spikes, inner)


def test_feedback_over_the_state_is_a_cycle() -> None:
    net = Recurrent()
    graph = to_nir(net, args=(XS[0],))
    assert sorted(graph.edges) == [
        ("fc", "lif"),
        ("lif", "output"),
        ("lif", "rec"),
        ("rec", "lif"),
        ("x", "fc"),
    ]
    read, state, mine, total = from_nir(graph), None, None, 0.0
    for x in XS:
        spikes, state = net(x, state)
        same, mine = read(x, mine)
        assert torch.equal(spikes, same)
        assert torch.equal(state[1].v, mine.lif.v)
        total += spikes.sum().item()
    assert total > 0


def test_feedback_inside_of_a_module_is_a_cycle_inside_of_a_graph() -> None:
    def forward(self: Any, x: Any, state: Any = None) -> Any:
        y, state = self.cell(self.pre(x), state)
        return self.post(y), state

    net = model(forward, pre=nn.Linear(4, 4), cell=Recurrent(), post=nn.Linear(4, 2))
    graph = to_nir(net, args=(XS[0],))
    assert graph.edges == [("x", "pre"), ("pre", "cell"), ("cell", "post"), ("post", "output")]
    assert ("lif", "rec") in graph.nodes["cell"].edges
    read, state, mine = from_nir(graph), None, None
    for x in XS:
        y, state = net(x, state)
        same, mine = read(x, mine)
        assert torch.allclose(y, same)


def test_a_state_is_no_signal() -> None:
    linear = nn.Linear(4, 4)
    with pytest.raises(NoMeaningError, match=r"module 'b' \(Linear\): its input is the state of a module"):
        to_nir(model(lambda self, x: self.b(self.a(x)[1].v), a=neuron(), b=linear), args=(XS[0],))
    with pytest.raises(NoMeaningError, match="mul uses the state of a module as a signal"):
        to_nir(model(lambda self, x: self.a(x)[1].v * 2, a=neuron()), args=(XS[0],))
    with pytest.raises(NoMeaningError, match="returns no signal"):
        to_nir(model(lambda self, x: self.a(x)[1].v, a=neuron()), args=(XS[0],))


class Odd(nn.Module):
    """A module whose state has a name of its own."""

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> Any:
        return x + z, z + 1


def odd_node(_: nn.Module) -> nir.NIRNode:
    return nir.I(np.ones(4, np.float32))


def test_the_argument_of_a_state_can_be_named() -> None:
    net = model(lambda self, x: self.b(self.odd(x, self.a(x))[0]), a=nn.Linear(4, 4), b=nn.Linear(4, 4), odd=Odd())
    with pytest.raises(NoMeaningError, match=r"takes 2 signals \(x, z\).*stateful_modules=\{Odd: 'z'\}"):
        to_nir(net, {Odd: odd_node}, args=(XS[0],))
    graph = to_nir(net, {Odd: odd_node}, args=(XS[0],), stateful_modules={Odd: "z"})
    assert ("x", "odd") in graph.edges
    assert ("a", "odd") not in graph.edges


def test_torch_recurrent_modules_are_mapped_to_graphs() -> None:
    def mapper(_: nn.Module) -> nir.NIRNode:
        nodes = {"input": nir.Input(np.array([4])), "w": nir.Linear(np.eye(4)), "output": nir.Output(np.array([4]))}
        return nir.NIRGraph(nodes, [("input", "w"), ("w", "w"), ("w", "output")], type_check=False)

    net = model(lambda self, x, hx=None: self.rnn(self.fc(x), hx), fc=nn.Linear(4, 4), rnn=nn.RNNCell(4, 4))
    graph = to_nir(net, {nn.RNNCell: mapper}, args=(XS[0],))
    assert kinds(graph)["rnn/w"] == "Linear"
    assert graph.edges == [("x", "fc"), ("fc", "rnn"), ("rnn", "output")]


def loop(self: Any, x: torch.Tensor) -> Any:
    state, spikes, found = None, torch.zeros(2, 4), []
    for at in range(x.shape[0]):
        spikes, state = self.lif(self.fc(x[at]) + self.rec(spikes), state)
        found.append(self.post(spikes))
    return torch.stack(found)


def stepping(self: Any, x: torch.Tensor) -> Any:
    state, found = None, []
    for step in x.unbind(1):
        y, state = self.cell(step, state)
        found.append(y)
    return torch.stack(found, 1)


def looping() -> nn.Module:
    torch.manual_seed(0)
    children = {"fc": nn.Linear(4, 4), "rec": nn.Linear(4, 4), "lif": neuron()}
    return model(loop, **children, post=nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 3)))


def test_a_loop_over_time_is_its_step() -> None:
    net = looping()
    graph = to_nir(net, args=(XS,))
    assert graph.nodes["x"].input_type["input"].tolist() == [4]
    assert sorted(graph.edges) == [
        ("fc", "lif"),
        ("lif", "post"),
        ("lif", "rec"),
        ("post", "output"),
        ("rec", "lif"),
        ("x", "fc"),
    ]
    assert torch.allclose(from_nir(graph).run(XS)[0], net(XS))


def test_a_loop_over_the_second_axis_with_steps_in_a_module() -> None:
    net = model(stepping, cell=Recurrent())
    graph = to_nir(net, args=(XS.transpose(0, 1),))
    assert kinds(graph)["cell/lif"] == "LIF"
    assert torch.equal(from_nir(graph).run(XS)[0].transpose(0, 1), net(XS.transpose(0, 1)))


def summed(self: Any, x: torch.Tensor) -> Any:
    state, found = None, []
    for step in x:
        y, state = self.lif(step, state)
        found.append(y)
    return sum(found)


def uneven(self: Any, x: torch.Tensor) -> Any:
    return torch.stack([self.a(step) if at % 2 else self.b(step) for at, step in enumerate(x)])


def forgetting(self: Any, x: torch.Tensor) -> Any:
    return torch.stack([self.lif(step)[0] for step in x])


def before(self: Any, x: torch.Tensor) -> Any:
    return torch.stack([self.b(step) for step in self.a(x)])


def less(self: Any, x: torch.Tensor) -> Any:
    return torch.stack([self.a(step) if at == 3 else self.b(self.a(step)) for at, step in enumerate(x)])


def elsewhere(self: Any, x: torch.Tensor) -> Any:
    found = [(self.a(step), step) for step in x]
    return torch.stack([y + self.b(step if at == 3 else y) for at, (y, step) in enumerate(found)])


def nothing(self: Any, x: torch.Tensor) -> Any:
    return torch.stack(list(x))


def beside(self: Any, x: torch.Tensor) -> Any:
    return torch.stack([self.a(step) for step in x]), self.b(x)


def older(self: Any, x: torch.Tensor) -> Any:
    found: list[torch.Tensor] = []
    for step in x:
        found.append(self.a(step) + (self.b(found[-2]) if len(found) > 1 else 0))
    return torch.stack(found)


@pytest.mark.parametrize(
    ("forward", "named"),
    [(less, "step 3 of the loop over time does less than step"),
     (elsewhere, r"module 'b' \(Linear\): in step 3 .* its input comes from elsewhere"),
     (nothing, "the loop over time does nothing"), (beside, r"module 'b' \(Linear\): it is outside of the loop"),
     (older, "step 0 of the loop"), (summed, "adds up, what earlier steps"), (uneven, "step 1 of the loop"),
     (forgetting, "not passed on"),
     (before, "no input of the model")],
)  # fmt: skip
def test_loops_whose_steps_differ(forward: Any, named: str) -> None:
    net = model(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4), lif=neuron())
    with pytest.raises(NoMeaningError, match=named) as caught:
        to_nir(net, args=(XS,))
    assert "for x_t in x" in str(caught.value)


def test_a_loop_that_selects_its_steps() -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        found = [self.a(torch.select(x, -3, at)) for at in range(x.shape[0])]
        return torch.stack(found), torch.stack(found)

    assert to_nir(model(forward, a=nn.Linear(4, 4)), args=(XS,)).edges == [("x", "a"), ("a", "output")]


def adding(self: Any, x: torch.Tensor, state: Any = None) -> Any:
    return (self.a(x), x) if state is None else (self.a(x) + state, state + x)


def test_a_state_that_only_adds_to_itself() -> None:
    with pytest.raises(ExportError, match="the sum of itself and nothing else in between; a cycle needs a node"):
        to_nir(model(adding, a=nn.Linear(4, 4)), args=(XS[0],))


def test_a_loop_needs_three_steps() -> None:
    with pytest.raises(NoMeaningError, match="3 or more"):
        to_nir(looping(), args=(XS[:2],))
