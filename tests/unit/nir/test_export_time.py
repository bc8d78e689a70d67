"""Models over time: what a graph does equals what the model does from the first step on, or there is an error."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nir_bridge import Dynamics, from_nir, to_nir
from nir_bridge.errors import NoMeaningError
from tests.support.nir_models import model, neuron

torch.manual_seed(0)
XS = 3 * torch.randn(6, 2, 4)


class Step(nn.Module):
    """A recurrent neuron: how the first step takes its own last output is up to `kind`."""

    def __init__(self, kind: str, bias: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.r, self.lif, self.kind = nn.Linear(4, 4), nn.Linear(4, 4, bias=bias), neuron(), kind

    def now(self, x: Tensor, z: Tensor | None) -> Any:
        h = self.a(x)
        if z is not None:
            return h + self.r(z)
        starts = {"nothing": None, "zeros": torch.zeros(4), "ones": torch.ones(4)}
        start = starts.get(self.kind)
        return h if start is None else h + self.r(start)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        z, inner = (None, None) if state is None else state
        z, inner = self.lif(self.now(x, z), inner)
        return z, (z, inner)


class Loop(Step):
    def forward(self, x: Tensor, state: Any = None) -> Any:
        z = inner = None
        outs = []
        for x_t in x:
            z, inner = self.lif(self.now(x_t, z), inner)
            outs.append(z)
        return torch.stack(outs)


FIRST = [("nothing", True, "target"), ("nothing", False, "source"), ("zeros", True, "source")]


@pytest.mark.parametrize(("kind", "bias", "feedback"), FIRST)
def test_steps_agree_from_the_first_on(kind: str, bias: bool, feedback: str) -> None:
    net = Step(kind, bias)
    read = from_nir(to_nir(net, args=(XS[0],)))
    state = mine = None
    for x in XS:
        wanted, state = net(x, state)
        found, mine = read(x, mine)
        assert torch.equal(found, wanted)
    with pytest.raises(NoMeaningError, match="feedback='target'") if feedback == "target" else nullcontext():
        to_nir(net, args=(XS[0],), dynamics=Dynamics())


@pytest.mark.parametrize(("kind", "bias", "feedback"), FIRST)
def test_loops_agree_from_the_first_step_on(kind: str, bias: bool, feedback: str) -> None:
    net = Loop(kind, bias)
    graph = to_nir(net, args=(XS,))
    assert torch.equal(from_nir(graph).run(XS)[0], net(XS))
    assert ("nir_bridge" in graph.metadata) == (feedback == "target")


@pytest.mark.parametrize("make", [Step, Loop])
def test_what_starts_from_something_else(make: Any) -> None:
    with pytest.raises(NoMeaningError, match=r"module 'lif' \(LIF\): at the first step a constant is added"):
        to_nir(make("ones"), args=(XS if make is Loop else XS[0],))


@pytest.mark.parametrize("name", ["state", "v", "prev"])
def test_a_sum_that_keeps_itself_is_no_feedback(name: str) -> None:
    space: dict[str, Any] = {}
    exec(  # a forward whose state has a given name
        f"def forward(self, x, {name}=None):\n"
        f"    v = self.a(x) if {name} is None else 0.5 * {name} + self.a(x)\n"
        "    return v, v",
        space,
    )
    with pytest.raises(NoMeaningError, match=r"would carry the value of another step.*map the module"):
        to_nir(model(space["forward"], a=nn.Linear(4, 4)), args=(XS[0],))


def looping(change: Any) -> Any:
    def forward(self: Any, x: Tensor) -> Tensor:
        state, outs = None, []
        for t, x_t in enumerate(x):
            y, state = self.lif(change(self, t, self.a(x_t)), state)
            outs.append(y)
        return torch.stack(outs)

    return forward


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda self, t, h: h + 1 if t else h, "at the first step its input comes from elsewhere"),
        (lambda self, t, h: h if t else h + 1, "at the first step a constant is added"),
        (lambda self, t, h: h if t else h * 2, "step 0 of the loop over time does it"),
        (lambda self, t, h: h + t, "step 1 of the loop over time does it"),
        (lambda self, t, h: h * (t + 1), "step 1 of the loop over time does it"),
    ],
)
def test_steps_with_constants_of_their_own(change: Any, named: str) -> None:
    with pytest.raises(NoMeaningError, match=named):
        to_nir(model(looping(change), a=nn.Linear(4, 4), lif=neuron()), args=(XS,))


@pytest.mark.parametrize("pick", [lambda outs: outs[::-1], lambda outs: outs[::2], lambda outs: [*outs[1:], outs[0]]])
def test_series_put_together_in_another_order(pick: Any) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        state, outs = None, []
        for x_t in x:
            y, state = self.lif(x_t, state)
            outs.append(y)
        return torch.stack(pick(outs))

    with pytest.raises(NoMeaningError, match="one value of each step, in their order"):
        to_nir(model(forward, lif=neuron()), args=(XS,))


def test_keyword_only_inputs_without_an_example() -> None:
    net = model(lambda self, *, x: self.a(x), a=nn.Linear(4, 4))
    assert to_nir(net).edges == [("x", "a"), ("a", "output")]


def test_many_blocks_with_skips() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Any:
            return x + self.a(x)

    graph = to_nir(nn.Sequential(*[Block() for _ in range(600)]), args=(XS[0, :, :2],), type_check=False)
    assert len(graph.nodes) == 602
    assert graph.nodes["599"].edges == [("x", "a"), ("x", "output"), ("a", "output")]


def test_doubling_without_an_end() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        for _ in range(40):
            x = x + x
        return x

    with pytest.raises(NoMeaningError, match="a sum of more than 10000 values"):
        to_nir(model(forward), args=(XS[0],))
