"""Costs of modules, differences of graphs, and the record of calls."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.support import capturing
from tests.support.trainable import MODELS, Transformer
from tests.support.truth import Truth, score, truths
from unflatten import GraphView, diff, record
from unflatten.view.values import Evidence


@pytest.fixture(scope="module")
def module() -> fx.GraphModule:
    model, args = MODELS["transformer"]()
    return capturing.joint(capturing.by_dynamo(model, args), args)


def test_flops_are_those_that_torch_counts(module: fx.GraphModule) -> None:
    model, args = MODELS["transformer"]()
    with FlopCounterMode(display=False) as counter:
        model(*args).sum().backward()
    cost = GraphView(module).root.cost()
    assert cost.flops + cost.backward_flops == counter.get_total_flops()
    assert cost.parameter_bytes == sum(each.numel() * 4 for each in model.parameters())


def test_bytes(module: fx.GraphModule) -> None:
    mlp = GraphView(module)["layers.0.mlp"]
    assert mlp.cost().parameter_bytes == (8 * 16 + 16 + 16 * 8 + 8) * 4
    # Two linear layers and GELU; the last result is not needed for gradients, and the input is not the module's.
    assert mlp.forward.cost().activation_bytes == (6 * 16 + 6 * 16 + 6 * 8) * 4
    assert mlp.forward.cost().saved_bytes == (6 * 16 + 6 * 16) * 4
    assert mlp.forward.cost().flops == 2 * 6 * 8 * 16 * 2
    assert mlp.forward.cost().backward_flops == 0
    assert mlp.backward.cost().backward_flops == 2 * mlp.forward.cost().flops


def test_equal_layers_are_one_line() -> None:
    args = MODELS["transformer"]()[1]
    view = GraphView(torch.export.export(Transformer(4), args))
    text = str(view.root.costs())
    assert [line.split()[0] for line in text.splitlines()][:6] == [
        "module", "(root)", "embed", "layers", "layers.[0-3]", "layers.[0-3].attn",
    ]  # fmt: skip
    assert len(text.splitlines()) == 18


def test_differences(module: fx.GraphModule) -> None:
    one, other = GraphView(module), GraphView(copy.deepcopy(module))
    assert not diff(one, other)
    assert str(diff(one, other)) == "no difference"
    gelu = other["layers.1.mlp.1"].forward.nodes[0]
    other.create(torch.ops.aten.neg.default, (gelu,), origin=gelu)
    other["layers.0"].forward.hoist(other.find(path="layers.1", op="aten.t", phase="forward"))
    assert str(diff(one, other)) == "layers.1.mlp.1 forward: +1 aten.neg.default"
    assert str(diff(other, one)) == "layers.1.mlp.1 forward: -1 aten.neg.default"


@pytest.mark.parametrize("name", list(MODELS))
def test_a_record_stands_for_stacks(name: str) -> None:
    model, args = MODELS[name]()
    with Truth().write(model), record(model):
        module = capturing.joint(model, args)
    view = GraphView(module)
    found = score(truths(module.graph), {node: owner.scope for node, owner in view.index.owners.items()})
    assert found.wrong == ()
    assert found.share == 1
    assert {view.owner(node).evidence for node in view.forward.nodes} == {Evidence.ORIGIN}


def test_a_record_of_make_fx_knows_the_loss_and_what_is_computed_again() -> None:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    model, args = Stack(), (torch.randn(2, 4),)
    with record(model):
        module = capturing.traced(model, args, stacks=False, numbers=False)
    view = GraphView(module)
    assert str(view.owner("sum_1").path) == ""
    again = [str(view.owner(node).scope[-1]) for node in view.recompute.nodes]
    assert set(again) >= {"layers.0.0", "layers.1.0"}
    assert all(call in ("layers.0.0", "layers.0.1", "layers.1.0", "layers.1.1") for call in again)


def test_a_record_changes_no_capture() -> None:
    model, args = MODELS["odd"]()

    def stacks(module: Any) -> list[Any]:
        return [[path for path, _ in (node.meta.get("nn_module_stack") or {}).values()] for node in module.graph.nodes]

    plain = torch.export.export(model, args)
    with record(model):
        recorded = torch.export.export(model, args)
    assert stacks(plain) == stacks(recorded)
    assert not model._forward_hooks


def test_operators_before_decomposition_count_as_what_they_do() -> None:
    size = torch.export.Dim("size", min=2)
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    program = torch.export.export(model, (torch.ones(3, 5, 8),), dynamic_shapes=({0: size},))
    with FlopCounterMode(display=False) as counter:
        program.module()(torch.ones(3, 5, 8))
    assert GraphView(program).root.cost().flops == counter.get_total_flops() > 0
    assert GraphView(program.run_decompositions()).root.cost().flops == counter.get_total_flops()
