"""What a view does with keys, names, graphs and metadata that nobody expects."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from tests.support import capturing
from tests.support.trainable import MODELS, Trained, Transformer
from unflatten import GraphView, diff, unflatten
from unflatten.errors import EmptySelectionError, JointProgramError, NotAProgramError, UnknownPathError, ViewError


@pytest.fixture
def layers() -> GraphView:
    return GraphView(fx.symbolic_trace(Transformer(4)))


def test_numbers_and_slices_are_those_of_a_list(layers: GraphView) -> None:
    assert str(layers.layers[-1].path) == "layers.3"
    assert [str(region.path) for region in layers.layers[::-2]] == ["layers.3", "layers.1"]
    assert [str(region.path) for region in layers.layers[-2:]] == ["layers.2", "layers.3"]
    with pytest.raises(UnknownPathError, match=r"no module 'layers\.\[4:9\]'"):
        layers.layers[4:9]
    with pytest.raises(UnknownPathError, match=r"no module 'layers\.-5'"):
        layers.layers[-5]
    for key in (None, 1.5, True, ("a", "b")):
        with pytest.raises(TypeError, match="found by a path, a number or a slice"):
            layers[key]  # type: ignore[index]


def test_what_is_in_a_view(layers: GraphView) -> None:
    assert "layers.0.attn" in layers
    assert "layers.*.mlp" in layers
    assert "mlp" in layers.layers[0]
    assert "atn" not in layers.layers[0]
    assert layers.head.nodes[0] in layers
    assert [str(region.path) for region in layers] == ["embed", "head", "layers", "norm"]
    assert len(layers) == 4
    assert layers


class Strange(nn.Module):
    """Children whose names look like patterns."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("x*y", "[0:2]", "a[1]", "a"):
            self.add_module(name, nn.Sequential(nn.Linear(2, 2)))

    def forward(self, x: Tensor) -> Tensor:
        for child in self.children():
            x = child(x)
        return x


def test_names_that_look_like_patterns() -> None:
    view = GraphView(torch.export.export(Strange(), (torch.ones(1, 2),)))
    for name in ("x*y", "[0:2]", "a[1]", "a"):
        assert [str(region.path) for region in (view[name], view[name]["0"], view[f"{name}.0"])] == [
            name, f"{name}.0", f"{name}.0",
        ]  # fmt: skip
        assert list(view[name].parameters) == [f"{name}.0.weight", f"{name}.0.bias"]


def test_an_empty_graph() -> None:
    view = GraphView(fx.Graph())
    assert (repr(view), view.root.nodes, view.partition("stage"), len(view)) == ("Module(no nodes)", (), {}, 0)
    assert view.root.cost().flops == 0
    assert view.root.convexity
    assert not diff(view, view)
    with pytest.raises(EmptySelectionError):
        view.find(op="mm")


def test_a_graph_without_metadata_is_owned_by_what_it_calls() -> None:
    module = fx.symbolic_trace(Transformer())
    for node in module.graph.nodes:
        node.meta.clear()
    view = GraphView(module)
    calls = [node for node in module.graph.nodes if node.op == "call_module"]
    assert [str(view.owner(node).path) for node in calls] == [node.target for node in calls]
    assert len(calls) == 21


def test_any_value_makes_a_partition_or_is_refused() -> None:
    model, args = MODELS["transformer"]()
    view = GraphView(capturing.joint(capturing.by_dynamo(model, args), args))
    assert {tag: len(part.nodes) for tag, part in view.partition("partitioner_tag").items()} == {
        "is_forward": 111, "is_backward": 187,
    }  # fmt: skip
    assert sum(len(part.nodes) for part in view.partition("nn_module_stack").values()) == 111
    assert list(view.partition(lambda node: [node.op])) == [("call_function",)]
    assert view.partition("nothing") == {}
    with pytest.raises(ViewError, match="'embedding' has a FakeTensor for 'val', by which nodes can't be grouped"):
        view.partition("val")


@pytest.mark.parametrize("strict", [False, True])
def test_bodies_of_operators(strict: Any) -> None:
    class Choosing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pre, self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = self.pre(x)
            return torch.cond(x.sum() > 0, lambda y: self.a(y), lambda y: self.b(y).relu(), (x,))

    view = GraphView(torch.export.export(Choosing(), (torch.ones(1, 2),), strict=strict))
    assert list(view.bodies) == ["true_graph_0", "false_graph_0"]
    assert [node.name for node in view.bodies["true_graph_0"]["a"].nodes] == ["linear_1"]
    assert len(view.bodies["false_graph_0"]["b"].nodes) == 1
    assert "true_graph_0" not in view.root.parameters


def test_joint_graphs_are_no_modules_and_the_error_says_where_to_look() -> None:
    model, args = MODELS["transformer"]()
    with pytest.raises(NotAProgramError, match=r"or look at this graph by module: unflatten\.GraphView\(graph\)"):
        unflatten(capturing.joint(model, args))  # type: ignore[arg-type]
    with pytest.raises(JointProgramError, match=r"unflatten\.GraphView\(program\)"):
        unflatten(capturing.forward_backward(Trained(model), args))
