"""Shapes of inputs that are found without an example: by what the inputs meet first."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nir_bridge import to_nir
from nir_bridge.errors import ExportError
from tests.support.nir_models import model


def shapes(net: nn.Module, **options: Any) -> list[Any]:
    nodes = to_nir(net, **options).nodes.values()
    found = [node.input_type["input"] for node in nodes if isinstance(node, nir.Input)]
    return [None if shape is None else shape.tolist() for shape in found]


@pytest.mark.parametrize(
    ("forward", "wanted"),
    [
        (lambda self, x: F.linear(x, self.a.weight), [4]),
        (lambda self, x: x @ torch.ones(4, 3), [4]),
        (lambda self, x: torch.mm(x, torch.ones(4, 3)), [4]),
        (lambda self, x: x * torch.ones(1, 5), [5]),
        (lambda self, x: x + torch.ones(3), [3]),
        (lambda self, x: F.conv2d(x, torch.ones(6, 2, 3, 3), groups=2), None),
        (lambda self, x: F.conv1d(x, torch.ones(6, 3, 3), None, 1, 0, 1, 2), None),
    ],
)
def test_functions_tell_the_shape(forward: Any, wanted: list[int] | None) -> None:
    assert shapes(model(forward, a=nn.Linear(4, 2))) == [wanted]


@pytest.mark.parametrize("forward", [lambda self, x, y: self.a(x) + y, lambda self, x, y: y + self.a(x)])
def test_a_sum_tells_the_shape_of_the_other(forward: Any) -> None:
    assert shapes(model(forward, a=nn.Linear(4, 3))) == [[4], [3]]


def test_inputs_by_name_only() -> None:
    def forward(self: Any, x: Any, *, y: Any) -> Any:
        return self.a(x) + y

    net = model(forward, a=nn.Linear(4, 3))
    assert shapes(net) == [[4], [3]]
    assert to_nir(net).edges == [("x", "a"), ("a", "output"), ("y", "output")]


def test_the_node_of_a_mapper_tells_the_shape() -> None:
    net = nn.Sequential(nn.Tanh())
    assert shapes(net, module_map={nn.Tanh: lambda _: nir.Scale(np.ones(4))}) == [[4]]
    assert shapes(net, module_map={nn.Tanh: lambda _: nir.Flatten({"input": None}, 0, -1)}) == [None]


@pytest.mark.parametrize(
    ("forward", "named"),
    [
        (lambda self, x: x - 2, "sub in the model's forward: the shape of its input is not known"),
        (lambda self, x: x * torch.ones(5, 3), r"inputs made up for it.*to_nir\(model, args=\(x,\)\)"),
    ],
)
def test_an_example_is_asked_for(forward: Any, named: str) -> None:
    with pytest.raises(ExportError, match=named):
        to_nir(model(forward))
