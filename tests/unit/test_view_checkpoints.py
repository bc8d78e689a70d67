"""Graphs that compute parts of their forward again, against what module hooks say while that happens."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import fx

from tests.support import capturing
from tests.support.checkpointed import CHECKPOINTED
from tests.support.truth import KEY, Truth
from unflatten import GraphView, record
from unflatten.view.values import Phase

NAMES = list(CHECKPOINTED)
ARGS = (torch.linspace(-1, 1, 8).reshape(2, 4),)


def _labels(graph: fx.Graph) -> dict[fx.Node, tuple[str, str]]:
    """What the hooks said, as `fw` or `bw` and a path; not known right after a computation was done again."""
    said = {node: node.meta.get(KEY) for node in graph.nodes if node.op == "call_function"}
    return {
        node: (label[0], label[1][-1].partition("@")[0])
        for node, label in said.items()
        if label and label[0] != "sums" and label[1]
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recorded", [False, True])
def test_make_fx(name: str, recorded: Any) -> None:
    model = CHECKPOINTED[name]()
    with Truth().write(model), record(model) if recorded else contextlib.nullcontext():
        module = capturing.traced(model, ARGS, stacks=not recorded)
    view, labels = GraphView(module), _labels(module.graph)
    order = list(module.graph.nodes)
    loss = order.index(view.forward.nodes[-1])
    again = [node for node in order[loss:] if labels.get(node, ("", ""))[0] == "fw"]
    # What was kept for the outer checkpoint and is kept again by the inner one looks like any use in the backward.
    unseen = ["detach_14"] if name == "nested" and not recorded else []
    assert [node.name for node in again if node not in view.recompute] == unseen
    assert set(view.recompute.nodes) <= set(again)
    assert len(again) == {"inside": 20, "selective": 18, "nested": 55}[name]
    for node, (_, path) in labels.items():
        if node.name in unseen:
            continue
        owner = str(view.owner(node).path)
        assert path == owner or path.startswith(f"{owner}."), node.name
    exact = [node for node, (_, path) in labels.items() if path == str(view.owner(node).path)]
    assert len(exact) >= 0.97 * len(labels)


@pytest.mark.parametrize("name", NAMES)
def test_compiled(name: str) -> None:
    graphs = {key: GraphView(graph) for key, graph in capturing.compiled(CHECKPOINTED[name](), ARGS).items()}
    joint = {node.name: graphs["joint"].owner(node) for node in graphs["joint"].root.nodes}
    for node in graphs["forward"].root.nodes:
        owner = graphs["forward"].owner(node)
        assert (owner.scope, owner.phase) == (joint[node.name].scope, Phase.FORWARD)
    for node in graphs["backward"].root.nodes:
        owner = graphs["backward"].owner(node)
        assert owner.scope == joint[node.name].scope
        again = joint[node.name].phase is Phase.FORWARD
        assert owner.phase is (Phase.RECOMPUTE if again else Phase.BACKWARD)
    assert len(graphs["backward"].recompute.nodes) == {"inside": 12, "selective": 9, "nested": 26}[name]
