"""Looking at graphs through a view: paths, patterns, searching, trees, and what a peer gets wrong."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx.traceback as fx_traceback
from torch import Tensor, fx, nn

from tests.support import capturing
from tests.support.trainable import MODELS, Transformer
from unflatten import GraphView
from unflatten.errors import EmptySelectionError, IllegalMoveError, UnknownPathError, ViewError
from unflatten.view.index import Index
from unflatten.view.region import Region, Regions
from unflatten.view.values import Phase


@pytest.fixture(scope="module")
def module() -> fx.GraphModule:
    model, args = MODELS["transformer"]()
    return capturing.joint(capturing.by_dynamo(model, args), args)


@pytest.fixture
def view(module: fx.GraphModule) -> GraphView:
    return GraphView(module)


def test_a_path_an_attribute_and_an_index_lead_to_the_same_region(view: GraphView) -> None:
    assert view["layers.0.attn"] == view.layers[0].attn == view["layers"]["0"]["attn"] == view["layers[0].attn"]
    assert len(view["layers.0.attn"].nodes) == 87
    assert view["layers.0.attn"] != view["layers.1.attn"]


def test_patterns(view: GraphView) -> None:
    def paths(pattern: str) -> list[str]:
        found = view[pattern]
        assert isinstance(found, Regions)
        return [str(region.path) for region in found]

    assert paths("layers.*.mlp") == ["layers.0.mlp", "layers.1.mlp"]
    assert paths("layers[0:1]") == ["layers.0"]
    assert paths("layers.[0-31].attn.w[qk]") == [
        "layers.0.attn.wq", "layers.0.attn.wk", "layers.1.attn.wq", "layers.1.attn.wk",
    ]  # fmt: skip
    assert paths("**.norm?") == ["layers.0.norm1", "layers.0.norm2", "layers.1.norm1", "layers.1.norm2"]
    assert [str(region.path) for region in view.layers[0:2]] == ["layers.0", "layers.1"]
    assert view["layers.*"].forward.nodes == view.layers.forward.nodes
    assert view["layers.*"].backward.nodes == view.layers.backward.nodes
    assert view["layers.*"].recompute.nodes == ()


def test_unknown_names_raise_with_what_comes_near(view: GraphView) -> None:
    with pytest.raises(UnknownPathError, match=r"no module 'layers\.0\.atn'.*Did you mean 'layers\.0\.attn'"):
        view["layers.0.atn"]
    with pytest.raises(UnknownPathError, match=r"no module 'layers\.\*\.nothing'"):
        view["layers.*.nothing"]
    with pytest.raises(UnknownPathError, match=r"no module 'layers\.7'"):
        view.layers[7]
    with pytest.raises(AttributeError, match="Did you mean 'head'"):
        _ = view.haed
    with pytest.raises(UnknownPathError):
        view.find(path="blocks")


def test_probes_of_attributes_behave(view: GraphView) -> None:
    assert not hasattr(view, "nothing")
    assert not hasattr(view.layers, "_repr_html_")
    assert not hasattr(view, "__array__")
    assert hasattr(view, "layers")
    assert {"layers", "head", "find"} <= set(dir(view))
    assert "attn" in dir(view.layers[0])


def test_copies_and_pickles(view: GraphView) -> None:
    shallow, deep = copy.copy(view), copy.deepcopy(view)
    assert repr(shallow) == repr(deep) == repr(view)
    assert shallow.graph is view.graph
    assert deep.graph is not view.graph
    deep.module.graph.erase_node(deep.module.graph.call_function(torch.neg, (deep.head.nodes[0],)))
    assert repr(deep) == repr(view)
    loaded = pickle.loads(pickle.dumps(view))
    assert [str(loaded.owner(node).path) for node in loaded.find(op="aten.mm")] == [
        str(view.owner(node).path) for node in view.find(op="aten.mm")
    ]
    assert pickle.loads(pickle.dumps(view["layers.0"])).path == view["layers.0"].path
    with pytest.raises(TypeError, match=r"torch\.export\.save"):
        pickle.dumps(GraphView(view.graph))


def test_the_tree(view: GraphView) -> None:
    assert repr(view.layers[0].mlp) == (
        "Sequential(forward 9, backward 21\n"
        "  (0): Linear(forward 4, backward 10)\n"
        "  (1): GELU(forward 1, backward 1)\n"
        "  (2): Linear(forward 4, backward 10)\n"
        ")"
    )


def test_own_nodes_and_all_nodes(view: GraphView) -> None:
    layer = view["layers.0"].forward
    inside = [node for child in layer for node in child.nodes]
    assert [node.name for node in layer.own_nodes] == ["add", "add_1"]
    assert sorted([*layer.own_nodes, *inside]) == list(layer.nodes)
    assert [len(child.nodes) for child in layer] == [32, 4, 4, 9]
    assert layer.own_nodes[0] in layer
    assert view.head.nodes[0] not in layer


def test_find(view: GraphView) -> None:
    assert len(view.find(cls="Linear", op="addmm", phase="forward")) == 7
    assert view.find(cls=nn.Linear, op=torch.ops.aten.addmm) == view.find(cls="Linear", op="aten.addmm.default")
    assert view.find(path="layers.*.mlp", phase=Phase.FORWARD, op="gelu") == view.find(op=torch.ops.aten.gelu.default)
    assert view.find(where=lambda node: node.name == "add_1") == (view["layers.0"].forward.own_nodes[1],)
    with pytest.raises(EmptySelectionError, match="no node has cls='Conv2d', op='mm'; strict=False"):
        view.find(cls="Conv2d", op="mm")
    assert view.find(cls="Conv2d", strict=False) == ()


class Named(nn.Module):
    """Children with names that a view's own attributes have, and a forward whose first argument is no `self`."""

    def __init__(s) -> None:  # noqa: N805
        super().__init__()
        for name in ("data", "add", "forward_", "nodes", "find"):
            s.add_module(name, nn.Linear(2, 2))
        s.add_module("my-mod", nn.Linear(2, 2))

    def forward(s, x: Tensor) -> Tensor:  # noqa: N805
        for child in s.children():
            x = child(x)
        return x


def test_any_name_of_a_child_and_of_self() -> None:
    view = GraphView(capturing.compiled(Named(), (torch.ones(1, 2),))["joint"])
    names = ["add", "data", "find", "forward_", "my-mod", "nodes"]
    assert list(view.root.children) == names
    assert [str(view[name].path) for name in names] == names
    assert all(view[name].forward.nodes for name in names)
    assert isinstance(view.data, Region)
    assert callable(view.find)


def test_a_model_that_a_function_calls() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    graphs: list[fx.GraphModule] = []

    def keep(graph: fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(lambda x: model(x) * 2, backend=keep)(torch.ones(1, 2))
    view = GraphView(graphs[0])
    assert [node.name for node in view.find(cls="Linear")] == [node.name for node in view.find(op="linear")]


def test_calls_are_apart() -> None:
    model, args = MODELS["odd"]()
    view = GraphView(capturing.joint(capturing.by_dynamo(model, args), args))
    shared = view.shared
    assert [call.call for call in shared.calls] == [0, 1, 2]
    assert len(shared.forward.nodes) == sum(len(call.forward.nodes) for call in shared.calls) == 12
    assert len(set(shared.nodes)) == len(shared.nodes)
    assert shared.calls[1].forward.convexity
    assert str(shared.forward.convexity).startswith("not convex: ")


@pytest.mark.parametrize("name", list(MODELS))
def test_calls_are_convex(name: str) -> None:
    model, args = MODELS[name]()
    view = GraphView(capturing.joint(capturing.by_dynamo(model, args), args))
    with view.unchanging():
        calls = [call for path in view.index.children for call in view[str(path)].calls]
        assert [call for call in calls if not call.forward.convexity] == []
        assert [call for call in calls if not call.backward.convexity] == []
        assert len(calls) == {"transformer": 27, "resnet": 17, "odd": 12}[name]


def test_a_question_compares_the_graph_once(module: fx.GraphModule, monkeypatch: pytest.MonkeyPatch) -> None:
    view = GraphView(copy.deepcopy(module))
    layers, layer = view["layers.*"], view["layers.0"]
    compared: list[fx.Graph] = []
    is_of = Index.is_of

    def counting(index: Index, graph: fx.Graph) -> bool:
        compared.append(graph)
        return is_of(index, graph)

    monkeypatch.setattr(Index, "is_of", counting)
    questions: list[Callable[[], object]] = [
        lambda: layers.nodes, lambda: layer.nodes, lambda: view["layers.*"], lambda: view.find(path="layers.0"),
        layer.cost, layer.costs, lambda: layer.inputs, lambda: layer.parameters, lambda: repr(view),
    ]  # fmt: skip
    for question in questions:
        compared.clear()
        question()
        assert len(compared) == 1


def test_costs_follow_edits(module: fx.GraphModule) -> None:
    view = GraphView(copy.deepcopy(module))
    layer = view["layers.0"].forward
    before = layer.cost()
    assert layer.cost() == before
    origin = layer.nodes[3]
    made = view.create(torch.ops.aten.neg.default, (origin,), origin=origin)
    value = made.meta["val"]
    assert layer.cost().activation_bytes == before.activation_bytes + value.numel() * value.element_size()
    view.graph.erase_node(made)
    assert layer.cost() == before


def test_a_view_follows_edits(module: fx.GraphModule) -> None:
    view = GraphView(copy.deepcopy(module))
    layer = view["layers.0"].forward
    before = layer.nodes
    made = view.create(torch.ops.aten.neg.default, (before[3],), origin=before[3])
    assert set(layer.nodes) == {*before, made}
    assert view.owner(made).path == view.owner(before[3]).path
    view.graph.erase_node(made)
    assert layer.nodes == before
    first, second = view["layers.0.mlp.0"].forward.nodes[:2]
    first.append(second)
    second.append(first)
    assert view["layers.0.mlp.0"].forward.nodes[:2] == (second, first)
    for node in reversed(view["norm"].nodes):
        if not node.users:
            view.graph.erase_node(node)
    gone = view.head.forward
    for node in gone.nodes:
        node.meta.pop("nn_module_stack")
    assert gone.nodes == ()


def test_a_path_that_went_away_is_refused() -> None:
    program = torch.export.export(nn.Sequential(nn.ReLU(), nn.Tanh()), (torch.ones(2),))
    view = GraphView(program)
    region = view["1"]
    (node,) = region.nodes
    node.replace_all_uses_with(view["0"].nodes[0])
    program.graph.erase_node(node)
    with pytest.raises(UnknownPathError, match="no module '1'"):
        _ = region.nodes


@pytest.mark.parametrize("strict", [False, True])
def test_nodes_of_a_module_with_two_names_are_there_once(strict: bool) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = self.other = nn.Sequential(nn.Linear(2, 2))

        def forward(self, x: Tensor) -> Tensor:
            return self.other(self.one(x))

    view = GraphView(torch.export.export(Two(), (torch.ones(1, 2),), strict=strict))
    linears = view.find(op="linear")
    assert len(linears) == len(set(linears)) == 2
    assert view["*"].nodes == view.root.nodes == linears


def test_partition() -> None:
    class Staged(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with fx_traceback.annotate({"stage": 0}):
                x = x + 1
            with fx_traceback.annotate({"stage": 1}):
                x = x * 2
            return x - 1

    with fx_traceback.preserve_node_meta():
        program = torch.export.export(Staged(), (torch.ones(2),))
    view = GraphView(program)
    stages = view.partition("stage")
    assert {stage: [node.name for node in part.nodes] for stage, part in stages.items()} == {0: ["add"], 1: ["mul"]}
    assert [port.node.name for port in stages[1].outputs] == ["mul"]
    assert view.find(annotation={"stage": 1}) == stages[1].nodes
    assert view.find(annotation="stage") == (*stages[0].nodes, *stages[1].nodes)
    by_name = view.partition(lambda node: node.name[0])
    assert list(by_name) == ["a", "m", "s"]


def test_ports(view: GraphView) -> None:
    attn = view["layers.0.attn"]
    assert [repr(port) for port in attn.forward.inputs] == [
        "layers.0.attn.wq.weight (parameter)",
        "layers.0.attn.wk.weight (parameter)",
        "layers.0.attn.wv.weight (parameter)",
        "layers.0.attn.wo.weight (parameter)",
        "layers.0.attn.wo.bias (parameter)",
        "getitem (value)",
    ]
    kinds = [port.kind.value for port in attn.forward.outputs]
    assert kinds == [*["saved for backward"] * 13, "result"]
    assert {port.kind.value for port in attn.backward.inputs} == {"saved for backward", "gradient"}
    assert {port.kind.value for port in attn.backward.outputs} == {"gradient"}


def test_mutations_are_outputs() -> None:
    model, args = MODELS["resnet"]()
    view = GraphView(capturing.joint(capturing.exported(model, args), args))
    kinds = [port.kind.value for port in view["blocks.0.bn"].forward.outputs]
    assert kinds.count("mutation") == 3


def test_other_things_are_refused(view: GraphView) -> None:
    with pytest.raises(TypeError, match="not of a Linear"):
        GraphView(nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(ViewError, match="'backwards' is no phase: forward, backward, recompute are"):
        view.find(phase="backwards")
    with pytest.raises(ViewError, match="nothing is not a node"):
        view.owner("nothing")


@pytest.mark.parametrize("depth", [300])
def test_deep_and_long_graphs(depth: int) -> None:
    graph = fx.Graph()
    value = graph.placeholder("x")
    for at in range(depth):
        value = graph.call_function(torch.ops.aten.neg.default, (value,))
        path = ".".join("a" * (at + 1))
        value.meta["nn_module_stack"] = {path: (path, "m.A")}
    for _ in range(20_000):
        value = graph.call_function(torch.ops.aten.neg.default, (value,))
        value.meta["nn_module_stack"] = {"b": ("b", "m.B")}
    graph.output(value)
    view = GraphView(graph)
    assert len(repr(view).splitlines()) == 2 * depth + 2
    assert (len(view.a.nodes), len(view.b.nodes)) == (depth, 20_000)
    with pytest.raises(IllegalMoveError, match=r"neg_default_\d+ -> \.\.\. 19992 more \.\.\. -> "):
        view.move_before([view.b.nodes[-1]], view.b.nodes[0])


def test_saved_and_loaded(tmp_path: Any) -> None:
    program = torch.export.export(Transformer(), MODELS["transformer"]()[1])
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2")
    assert repr(GraphView(loaded)) == repr(GraphView(program))
    assert [str(o.path) for o in GraphView(loaded).index.owners.values()] == [
        str(o.path) for o in GraphView(program).index.owners.values()
    ]
