"""The order in which a view shows modules: the model's, and numbers never as text."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import unflatten
from unflatten import GraphView, diff
from unflatten.paths import ModulePath, by_value
from unflatten.view.order import in_order


class Net(nn.Module):
    """Made in another order than it runs, with many layers, and names that end in numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.wpe = nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(2, 2), nn.Tanh()) for _ in range(12)])
        self.act10, self.act2 = nn.ReLU(), nn.Tanh()
        self.base = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.base(x)
        for layer in reversed(self.layers):
            x = layer(x)
        return self.act2(self.act10(self.wpe(x)))


X = torch.ones(1, 2)
NUMBERS = [str(at) for at in range(12)]


@pytest.mark.parametrize("export", [unflatten.export, torch.export.export])
def test_modules_come_in_the_order_of_the_model(export: Callable[..., torch.export.ExportedProgram]) -> None:
    program = export(Net(), (X,))
    tree = unflatten.unflatten(program)
    for each in (program, program.run_decompositions()):
        view = GraphView(each)
        names = [".".join(path.names) for path in _walk(view)]
        assert names == [name for name, _ in tree.named_modules()]
        rows = [row.path for row in view.root.costs().rows]
        assert rows == [
            *("", "wpe", "layers", "layers.[0-11]", "layers.[0-11].0", "layers.[0-11].1", "act10", "act2", "base"),
        ]
        shown = [line.strip().partition(")")[0] for line in repr(view).splitlines()[1:] if "): " in line]
        assert shown == [f"({name.rpartition('.')[2]}" for name in names[1:]]


def _walk(view: GraphView) -> list[ModulePath]:
    found, stack = [], [view.root]
    while stack:
        region = stack.pop()
        found.append(region.path)
        stack.extend(reversed(list(region.children.values())))
    return found


def test_a_graph_alone_tells_the_order_of_parameters() -> None:
    program = torch.export.export(Net(), (X,))
    view = GraphView(program.graph_module.graph, [name for name, _ in Net().named_parameters()])
    assert list(view.root.children) == ["wpe", "layers", "base", "act2", "act10"]
    assert list(view["layers"].children) == NUMBERS
    assert list(view["layers.10"].children) == ["0", "1"]


def test_a_region_that_is_cut_out_keeps_the_order() -> None:
    view = GraphView(torch.export.export(Net(), (X,)))
    assert list(GraphView(view.root.extract()).root.children) == list(view.root.children)
    assert list(GraphView(view["layers"].extract())["layers"].children) == NUMBERS


def test_differences_come_in_the_order_of_the_model() -> None:
    program = torch.export.export(Net(), (X,))
    other = copy.deepcopy(program)
    for node in other.graph_module.graph.nodes:
        if node.target in (torch.ops.aten.tanh.default, torch.ops.aten.relu.default):
            node.target = torch.ops.aten.sigmoid.default
    found = [change.call for change in diff(GraphView(program), GraphView(other)).changes]
    assert found == [*(f"layers.{name}.1" for name in NUMBERS), "act10", "act2"]


def test_numbers_never_sort_as_text() -> None:
    names = ["layer10", "10", "b", "layer2", "02", "2", "layer", "1" * 5000, "a1b"]
    wanted = ["02", "2", "10", "1" * 5000, "a1b", "b", "layer", "layer2", "layer10"]
    assert sorted(names, key=by_value) == wanted
    root = ModulePath()
    assert in_order(root, names, {}) == wanted
    assert in_order(root, names, {root / "b": 0, root / "layer10": 1}) == [
        *("02", "2", "10", "1" * 5000, "b", "layer10", "a1b", "layer", "layer2"),
    ]
    assert in_order(root, ["10", "2"], {root / "10": 0, root / "2": 1}) == ["10", "2"]
