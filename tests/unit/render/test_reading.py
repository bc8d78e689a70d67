"""What pictures show of modules, programs, graphs, views and their parts."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from tests.support import reordering
from tests.unit.render import models
from unflatten import GraphView, UnflattenedModule, bypass, export, swap, unflatten
from unflatten.errors import NotDrawableError, StructureError, UnknownPathError
from unflatten.render import Cluster, Edge, Node, Picture, Shape, picture


def titles(drawn: Picture) -> list[str]:
    return [cluster.title for cluster in drawn.clusters]


def lines(drawn: Picture) -> list[str]:
    return [f"{drawn.clusters[node.cluster].path}: {node.label}" for node in drawn.nodes]


def arrows(drawn: Picture) -> list[str]:
    return [f"{drawn.nodes[edge.source].name} > {drawn.nodes[edge.target].name}" for edge in drawn.edges]


WHOLE = [
    ": x 2x4 f32",
    "fc: linear 2x4 f32",
    ": mul 2x4 f32",
    "fc: linear 2x4 f32",
    "layers.0.0: linear 2x8 f32",
    "layers.0.1: relu 2x8 f32",
    ": output 2x8 f32",
]


@pytest.mark.parametrize("kind", ["module", "program", "graph", "graph module", "view", "region"])
def test_everything_that_has_the_graph_gives_the_same_picture(kind: str) -> None:
    program = models.program()
    obj = {
        "module": lambda: unflatten(program),
        "program": lambda: program,
        "graph": lambda: program.graph,
        "graph module": lambda: program.graph_module,
        "view": lambda: GraphView(program),
        "region": lambda: GraphView(program).root,
    }[kind]()
    drawn = picture(obj)
    drawn.verify()
    if kind in ("module", "program", "view", "region"):  # a bare graph does not tell which placeholders are parameters
        assert lines(drawn) == WHOLE
        assert arrows(drawn) == [
            "x > linear", "linear > mul", "mul > linear_1", "linear_1 > linear_2", "linear_2 > relu",
            "relu > output relu",
        ]  # fmt: skip
    assert [title for title in titles(drawn) if "fc" in title] == ["fc (call 1): Linear", "fc (call 2): Linear"]


def test_classes_containers_counts_and_what_modules_hold() -> None:
    drawn = picture(unflatten(models.program()))
    assert titles(drawn) == [
        "Net", "fc (call 1): Linear", "fc (call 2): Linear", "layers: ModuleList", "0: Sequential", "0: Linear",
        "1: ReLU",
    ]  # fmt: skip
    assert [cluster.nodes for cluster in drawn.clusters] == [7, 1, 1, 2, 2, 1, 1]
    assert dict(drawn.clusters[1].details)["weight"] == "parameter 4x4 f32"
    assert dict(drawn.clusters[0].details)["scale"] == "parameter 4 f32"
    mul = next(node for node in drawn.nodes if node.op == "mul")
    assert (mul.target, mul.phase, mul.shape) == ("aten.mul.Tensor", "forward", Shape.COMPUTE)
    details = dict(mul.details)
    assert (details["arguments"], details["scale"]) == ("linear, p_scale", "parameter 4 f32")
    assert details["source"].startswith("models.py:")


@pytest.mark.parametrize("source", ["module", "program"])
def test_a_path_draws_one_module_with_what_is_around_it_as_ports(source: str) -> None:
    program = models.program()
    drawn = picture(unflatten(program) if source == "module" else program, "layers.0")
    assert titles(drawn) == ["0: Sequential", "0: Linear", "1: ReLU"]
    assert lines(drawn) == [
        "layers.0: linear_1 2x4 f32", "layers.0.0: linear 2x8 f32", "layers.0.1: relu 2x8 f32",
        "layers.0: output 2x8 f32",
    ]  # fmt: skip
    shared = picture(unflatten(program) if source == "module" else program, "fc")
    assert titles(shared) == ["fc: Linear", "fc (call 1): Linear", "fc (call 2): Linear"]
    assert [node.shape for node in shared.nodes].count(Shape.INPUT) == 2


def test_a_module_inside_is_drawn_alone_and_by_its_path_alike() -> None:
    nested = unflatten(models.transformer())
    for path in ("layers", "layers.1", "layers.1.attn", "layers.1.attn.wq", "head"):
        by_path, by_view = picture(nested, path), picture(models.transformer(), path)
        assert titles(by_path)[1:] == titles(by_view)[1:]
        assert sorted(arrows(by_path)) == sorted(arrows(by_view))
        inner = nested.get_submodule(path)
        if isinstance(inner, UnflattenedModule):
            assert picture(inner) == by_path


def test_phases_are_apart_and_what_the_backward_saves_is_said() -> None:
    drawn = picture(GraphView(models.joint()))
    drawn.verify()
    assert titles(drawn)[1:3] == ["forward", "embed: Embedding"]
    assert [cluster.title for cluster in drawn.clusters if cluster.parent == 0] == ["forward", "backward"]
    phases = {drawn.clusters[node.cluster].phase for node in drawn.nodes if node.shape is Shape.COMPUTE}
    assert phases == {"forward", "backward"}
    inputs = [node for node in drawn.nodes if node.shape is Shape.INPUT]
    assert [(node.name, node.phase) for node in inputs] == [("primals_32", "forward"), ("tangents_1", "backward")]
    assert any(("saved", "the backward uses it") in node.details for node in drawn.nodes)
    assert any(key == "gradient of" and value == "head.weight" for node in drawn.nodes for key, value in node.details)


def test_parts_of_a_view() -> None:
    view = GraphView(models.joint())
    backward = picture(view["layers.0.attn"].backward)
    assert titles(backward)[0] == "attn: Attention"
    assert {node.phase for node in backward.nodes if node.shape is Shape.COMPUTE} == {"backward"}
    both = picture(view, "layers.0.attn")
    assert titles(both)[:3] == ["attn: Attention", "forward", "wq: Linear"]
    several = picture(view["layers.*.norm1"].forward)
    assert [title for title in titles(several) if "norm1" in title] == ["norm1: LayerNorm"] * 2
    group = picture(view.partition(lambda node: node.target)[torch.ops.aten.mm.default])
    assert {node.op for node in group.nodes if node.shape is Shape.COMPUTE} == {"mm"}
    assert picture(view.root) == picture(view)
    with pytest.raises(NotDrawableError, match="only a region has modules inside"):
        picture(view["layers.*"], "norm1")


def test_the_picture_is_of_the_tree_as_it_is_now() -> None:
    nested = unflatten(models.transformer())
    swap(nested, "layers.0.attn", nn.Identity())
    drawn = picture(nested, "layers.0")
    box = next(node for node in drawn.nodes if node.shape is Shape.MODULE)
    assert (box.label, drawn.clusters[box.cluster].title) == ("Identity 2x3x8 f32", "attn: Identity")
    assert ("stands in for", "tests.support.trainable.Attention") in box.details
    assert {"layer_norm > attn", "attn > add"} <= set(arrows(drawn))
    bypass(nested, "layers.1.mlp")
    assert any(node.op == "Bypassed" for node in picture(nested).nodes)
    nested.head = nn.Conv1d(1, 1, 1)
    assert any(node.op == "Conv1d" for node in picture(nested).nodes)


def test_copies_and_what_was_pickled() -> None:
    nested = unflatten(models.transformer())
    assert picture(copy.deepcopy(nested)) == picture(nested)
    again = picture(pickle.loads(pickle.dumps(nested)))
    again.verify()
    assert "wq: Linear" in titles(again)
    assert next(node.op for node in again.nodes if node.name == "layers_0_attn_wq") == "Linear"


def test_graphs_that_nothing_exported() -> None:
    drawn = picture(fx.symbolic_trace(models.Net()))
    assert [node.label for node in drawn.nodes] == [
        "x", "Linear", "mul", "Linear", "Linear", "ReLU", "output",
    ]  # fmt: skip
    assert "layers" in titles(drawn)


def test_sizes_that_vary_and_branches() -> None:
    class Choice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Any:
            y = torch.cond(x.sum() > 0, lambda z: z + 1, lambda z: z - 1, (x,))
            return {"y": self.fc(y), "x": y.sum(0)}

    program = torch.export.export(Choice(), (torch.ones(2, 3),), dynamic_shapes=({0: torch.export.Dim("b")},))
    for source in (program, unflatten(program)):
        drawn = picture(source)
        labels = [node.label for node in drawn.nodes]
        assert [label.partition(" ")[0] for label in labels][1:] == [
            "sum", "gt", "cond", "getitem", "linear", "sum", "output", "output",
        ]  # fmt: skip
        assert titles(drawn) == ["Choice", "fc: Linear"]
        cond = next(dict(node.details) for node in drawn.nodes if node.op == "cond")
        assert (cond["true_graph_0"], cond["false_graph_0"]) == ("1 node: add", "1 node: sub")
        assert labels[0].startswith("x s")
        assert labels[0].endswith("x3 f32")


def test_a_module_that_is_never_called_and_a_graph_without_nodes() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    nested = unflatten(export(Idle(), (torch.ones(1, 2),)))
    assert (picture(nested, "spare").nodes, picture(nested, "spare").title) == ((), "spare")
    assert titles(picture(nested)) == ["Idle", "used: Linear"]
    drawn = picture(torch.export.export(nn.Identity(), (torch.ones(2),)))
    assert [node.label for node in drawn.nodes] == ["input 2 f32", "output 2 f32"]


def test_what_can_not_be_drawn_is_refused() -> None:
    with pytest.raises(NotDrawableError, match=r"can't draw a Linear.*unflatten\.export"):
        picture(nn.Linear(2, 2))
    for source in (models.program(), unflatten(models.program()), GraphView(models.program())):
        with pytest.raises(UnknownPathError, match=r"no module 'layers\.1'"):
            picture(source, "layers.1")
    with pytest.raises(NotDrawableError, match="a picture has no module 'fc'"):
        picture(picture(models.program()), "fc")


def test_pictures_check_themselves() -> None:
    root = Cluster(-1, "", nodes=1)
    node = Node("a", "a", 0)
    Picture("", (root,), (node,), ()).verify()
    for bad in (
        Picture("", (root,), (), ()),
        Picture("", (root, Cluster(1, "b")), (node,), ()),
        Picture("", (root,), (node,), (Edge(0, 1),)),
    ):
        with pytest.raises(StructureError):
            bad.verify()


@pytest.mark.parametrize("how", reordering.ORDERS)
def test_the_order_of_the_graph_does_not_matter(how: str) -> None:
    program = copy.deepcopy(models.transformer())
    reordering.reorder(program, how, random.Random(0))
    assert picture(unflatten(program)) == picture(unflatten(models.transformer()))


def test_a_call_that_was_cut_says_why() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.a(x) + self.b(x)

    program = torch.export.export(Outer(), (torch.ones(2, 3),))
    first, second, other, _ = (node for node in program.graph.nodes if node.op == "call_function")
    first.append(other)
    other.update_arg(0, first)
    second.update_arg(0, other)
    program.graph_module.recompile()
    drawn = picture(unflatten(program))
    pieces = [cluster for cluster in drawn.clusters if cluster.path == "a"]
    assert [cluster.title for cluster in pieces] == ["a, piece 1: Sequential", "a, piece 2: Sequential"]
    assert all("had to run before and after" in dict(cluster.details)["cut"] for cluster in pieces)
