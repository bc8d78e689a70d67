"""Modules that write several buffers, called again and again: every read sees the write that it saw."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.common import functional
from unflatten import unflatten
from unflatten.testing import ModuleDag, assert_order_invariant, assert_same_outputs, topological_orders

LINES = ["self.a.add_(x)", "self.b.mul_(x)", "x = x + self.a", "x = self.b - x", "y, x = x, y"]
MODEL = """
import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(2))
        self.register_buffer("b", torch.tensor([2.0, -1.0]))

    def forward(self, x, y):
        {lines}
        return x - y


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Cell(), Cell()

    def forward(self, x, y):
        {calls}
        return x, y


build = Root
args = (torch.tensor([0.5, -1.5]), torch.tensor([-0.25, 3.0]))
kwargs = {{}}
dynamic_shapes = None
"""


@st.composite
def cells(draw: st.DrawFn) -> ModuleDag:
    lines = draw(st.lists(st.sampled_from(LINES), min_size=3, max_size=6))
    names = draw(st.lists(st.sampled_from(["one", "two"]), min_size=2, max_size=4))
    calls = [f"{'xy'[at % 2]} = self.{name}(x, y)" for at, name in enumerate(names)]
    indent = "\n        "
    return ModuleDag(MODEL.format(lines=indent.join(lines), calls=indent.join(calls)))


@given(cells(), st.booleans())
def test_functional_programs(dag: ModuleDag, record: bool) -> None:
    program = functional(dag, record=record)
    assert_same_outputs(dag.model(), unflatten(program), dag.args, dag.kwargs)


@given(cells(), st.booleans(), st.data())
def test_any_order(dag: ModuleDag, decompose: bool, data: st.DataObject) -> None:
    program = functional(dag) if decompose else dag.export()
    order = data.draw(topological_orders(program))
    assert_order_invariant(program, dag.args, dag.kwargs, orders=[order])
