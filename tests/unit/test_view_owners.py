"""Owners against the truth, for every route by which training graphs are captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn

from tests.support import capturing
from tests.support.trainable import MODELS, Trained
from tests.support.truth import Label, Labelled, Truth, paths_only, score, truths
from unflatten import GraphView
from unflatten.view.values import Evidence, Kind, Phase

NAMES = list(MODELS)


def _owners(view: GraphView) -> Any:
    return {node: owner.scope for node, owner in view.index.owners.items()}


def _labelled(flat: nn.Module, args: Any) -> fx.GraphModule:
    assert isinstance(flat, fx.GraphModule)
    return capturing.joint(Labelled(flat, Truth()), args)


def _carried(labelled: fx.GraphModule, graph: fx.Graph) -> dict[fx.Node, Label]:
    """The truth of one graph for the equal nodes of another."""
    known = truths(labelled.graph)
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    assert [node.target for node in nodes] == [node.target for node in known]
    return dict(zip(nodes, known.values(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_stacks_and_numbers(name: str) -> None:
    model, args = MODELS[name]()
    with Truth().write(model):
        module = capturing.traced(model, args)
    found = score(truths(module.graph), _owners(GraphView(module)))
    assert found.wrong == ()
    assert found.share == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("route", ["export", "dynamo", "compile"])
def test_joint_graphs(name: str, route: str) -> None:
    model, args = MODELS[name]()
    flat = capturing.exported(model, args) if route == "export" else capturing.by_dynamo(model, args)
    labelled = _labelled(flat, args)
    module = capturing.compiled(model, args)["joint"] if route == "compile" else capturing.joint(flat, args)
    found = score(_carried(labelled, module.graph), _owners(GraphView(module)))
    assert found.wrong == ()
    assert found.share == 1


@pytest.mark.parametrize("name", NAMES)
def test_halves_of_torch_compile(name: str) -> None:
    model, args = MODELS[name]()
    graphs = capturing.compiled(model, args)
    true = _carried(_labelled(capturing.by_dynamo(model, args), args), graphs["joint"].graph)
    labels = {node.name: label for node, label in true.items()}
    seen = set()
    for half in ("forward", "backward"):
        nodes = [node for node in graphs[half].graph.nodes if node.op == "call_function" and node.name in labels]
        found = score({node: labels[node.name] for node in nodes}, _owners(GraphView(graphs[half])))
        assert found.wrong == ()
        assert found.share >= (1 if half == "forward" else 0.92)
        seen |= {node.name for node in nodes}
    assert len(seen) >= 0.98 * len(labels)


@pytest.mark.parametrize(("name", "exact"), [("transformer", 0.7), ("resnet", 1)])
def test_gradients_of_joint_programs_belong_to_their_parameters(name: str, exact: float) -> None:
    model, args = MODELS[name]()
    trained = Trained(model)
    view = GraphView(capturing.forward_backward(trained, args), forward=torch.export.export(trained, args))
    gradients = view.index.roles.gradients
    assert len(gradients) == len(list(trained.parameters()))
    pairs = [(view.owner(gradient), view.owner(parameter).path) for gradient, parameter in gradients.items()]
    called = [(owner, path) for owner, path in pairs if owner.kind is not Kind.ACCUMULATION]
    assert all(path.is_within(owner.path) for owner, path in called)
    assert sum(path == owner.path for owner, path in called) >= exact * len(called)
    assert {owner.phase for owner, _ in pairs} == {Phase.BACKWARD}


@pytest.mark.parametrize(("name", "share"), [("transformer", 0.8), ("resnet", 1), ("odd", 0.93)])
def test_forward_stacks_alone(name: str, share: float) -> None:
    model, args = MODELS[name]()
    labelled = _with_truth(model, args)
    module = capturing.traced(model, args, numbers=False)
    found = score(_carried(labelled, module.graph), _owners(GraphView(module, list(dict(model.named_parameters())))))
    assert found.wrong == ()
    assert found.share >= share


def _with_truth(model: nn.Module, args: Any) -> fx.GraphModule:
    with Truth().write(model):
        return capturing.traced(model, args)


@pytest.mark.parametrize(("name", "share"), [("transformer", 0.76), ("resnet", 0.76), ("odd", 0.56)])
def test_joint_graph_without_stacks(name: str, share: float) -> None:
    model, args = MODELS[name]()
    with Truth().write(model):
        module = capturing.joint(model, args)
    found = score(paths_only(truths(module.graph)), _owners(GraphView(module)))
    assert found.wrong == ()
    assert found.share >= share


@pytest.mark.parametrize(
    "capture",
    [
        capturing.traced,
        capturing.joint,
        lambda model, args: capturing.joint(capturing.exported(model, args), args),
        lambda model, args: capturing.compiled(model, args)["forward"],
        lambda model, args: capturing.compiled(model, args)["backward"],
        lambda model, args: capturing.traced(model, args, stacks=False, numbers=False),
        lambda model, args: torch.export.export(model, args).run_decompositions(),
        lambda model, args: capturing.forward_backward(Trained(model), args),
        lambda model, args: fx.symbolic_trace(model),
    ],
    ids=["make_fx", "joint", "exported joint", "forward", "backward", "plain make_fx", "decomposed", "export", "fx"],
)
def test_every_node_has_an_owner(capture: Callable[..., Any]) -> None:
    model, args = MODELS["transformer"]()
    view = GraphView(capture(model, args))
    assert set(view.index.owners) == set(view.graph.nodes)
    work = [node for node in view.graph.nodes if node.op == "call_function"]
    assert set(view.root.nodes) >= set(work)


@pytest.mark.parametrize(("name", "exact"), [("transformer", 0.9), ("resnet", 0.8)])
def test_a_joint_program_takes_the_calls_from_its_forward(name: str, exact: float) -> None:
    model, args = MODELS[name]()
    trained = Trained(model)
    program = torch.export.export(trained, args)
    joint = capturing.forward_backward(trained, args)
    view = GraphView(joint, forward=program)
    told = [view.owner(node).evidence for node in view.forward.nodes]
    assert told.count(Evidence.GUESS) == 0
    assert told.count(Evidence.STACK) >= exact * len(told)
    forward = GraphView(program.run_decompositions())
    for node in forward.root.nodes:
        assert forward.owner(node).path.is_within(view.owner(node.name).path)
    assert view.root.backward.nodes


def test_phases_follow_the_dataflow_from_tangents() -> None:
    model, args = MODELS["transformer"]()
    graphs = capturing.compiled(model, args)
    view = GraphView(graphs["joint"])
    assert (len(view.forward.nodes), len(view.backward.nodes), len(view.recompute.nodes)) == (111, 187, 0)
    assert len(GraphView(graphs["forward"]).forward.nodes) == 111
    backward = GraphView(graphs["backward"])
    assert (len(backward.forward.nodes), len(backward.backward.nodes)) == (0, 187)


def test_placeholders_tangents_sums_and_outputs_have_owners() -> None:
    model, args = MODELS["transformer"]()
    view = GraphView(capturing.joint(capturing.exported(model, args), args))
    kinds = {owner.kind for owner in view.index.owners.values()}
    assert kinds == {Kind.PARAMETER, Kind.INPUT, Kind.TANGENT, Kind.COMPUTE, Kind.ACCUMULATION, Kind.OUTPUT}
    tangent = view.owner("tangents_1")
    assert (str(tangent.path), tangent.phase) == ("head", Phase.BACKWARD)
    weight = view["layers.0.attn"].parameters["layers.0.attn.wq.weight"]
    assert str(view.owner(weight).path) == "layers.0.attn.wq"
    sums = [view.owner(node) for node in view.root.nodes if view.owner(node).kind is Kind.ACCUMULATION]
    layer = ["layers.0", "layers.0.attn", "layers.0.attn", "layers.0"]
    assert sorted(str(owner.path) for owner in sums) == sorted([*layer, *(path.replace("0", "1") for path in layer)])
    assert {owner.evidence for owner in sums} == {Evidence.DATAFLOW}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stacks_alone", [False, True])
def test_another_order_of_nodes_changes_no_owner(name: str, *, stacks_alone: bool) -> None:
    model, args = MODELS[name]()
    if stacks_alone:
        module = capturing.traced(model, args, numbers=False)
    else:
        module = capturing.joint(capturing.by_dynamo(model, args), args)
    before = {node.name: owner for node, owner in GraphView(module).index.owners.items()}
    ready: list[fx.Node] = []
    waiting = {node: len(node.all_input_nodes) for node in module.graph.nodes}
    ready = [node for node, count in waiting.items() if not count]
    order = []
    while ready:
        node = max(ready, key=lambda other: (other.op == "placeholder", other.op != "output", other.name))
        ready.remove(node)
        order.append(node)
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    anchor = order[0]
    for node in order[1:]:
        anchor.append(node)
        anchor = node
    module.graph.lint()
    assert {node.name: owner for node, owner in GraphView(module).index.owners.items()} == before
