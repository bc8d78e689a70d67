"""Programs of every origin, and those that contradict themselves."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.experimental import _export_forward_backward

from tests.support.comparing import assert_same_run, assert_same_state, assert_unflattens, capture
from unflatten import GraphView, info, unflatten
from unflatten.errors import (
    GraphOrderError,
    JointProgramError,
    MissingStateError,
    NotAProgramError,
    SignatureMismatchError,
)

X = torch.randn(2, 5, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(4), nn.Linear(4, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return x + F.scaled_dot_product_attention(q, k, v)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bn, self.block, self.drop = nn.BatchNorm1d(5), Block(), nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.block(self.bn(self.block(x))))


def saved_and_loaded(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def traced_again(program: ExportedProgram) -> ExportedProgram:
    return torch.export.export(program.module(), (X,))


ORIGINS: dict[str, Callable[[nn.Module], ExportedProgram]] = {
    "non-strict": lambda model: capture(model, (X,)),
    "strict": lambda model: capture(model, (X,), strict=True),
    "preserved": lambda model: capture(model, (X,), preserve_module_call_signature=("block", "bn")),
    "functional": lambda model: capture(model, (X,)).run_decompositions({}),
    "decomposed": lambda model: capture(model, (X,)).run_decompositions(),
    "strict decomposed": lambda model: capture(model, (X,), strict=True).run_decompositions(),
    "saved and loaded": lambda model: saved_and_loaded(capture(model, (X,))),
    "decomposed, saved and loaded": lambda model: saved_and_loaded(capture(model, (X,)).run_decompositions()),
    "traced again": lambda model: traced_again(capture(model, (X,))),
    "deep-copied": lambda model: copy.deepcopy(capture(model, (X,))),
    "draft": lambda model: torch.export.draft_export(copy.deepcopy(model), (X,)),
}


# draft_export leaves a log file open (torch 2.9 to 2.13).
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("origin", ORIGINS)
def test_programs_of_every_origin(origin: str, train: bool) -> None:
    torch.manual_seed(0)
    model = Net().train(train)
    program = ORIGINS[origin](model)
    nested = unflatten(program)
    if origin != "traced again":
        assert_same_state(model, nested)
    assert {"block", "block.norm", "block.qkv", "bn"} <= {name for name, _ in nested.named_modules()}
    reference = program.module()
    for _ in range(2):
        assert torch.equal(reference(X), nested(X))
    assert torch.equal(nested.bn.running_mean, dict(reference.named_buffers())["bn.running_mean"])
    assert info(nested.block).type_name.endswith("Block")
    assert torch.equal(nested.block(X), model.block(X)) or "decomposed" in origin


def test_buffers_updated_functionally_by_several_calls() -> None:
    class Ema(nn.Module):
        mean: torch.Tensor
        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("seen", torch.zeros((), dtype=torch.long), persistent=False)

        def forward(self, x: torch.Tensor, momentum: float = 0.5) -> torch.Tensor:
            self.seen += 1
            self.mean.lerp_(x.mean(0), momentum)
            return x - self.mean * self.seen

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ema, self.bn = Ema(), nn.BatchNorm1d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.ema(self.bn(x), momentum=0.5)
            x = self.ema(self.bn(x) * 2, momentum=0.1)
            return self.ema(x, momentum=0.5)

    model, args = Outer(), (torch.randn(4, 3),)
    cases: tuple[dict[str, Any], ...] = ({}, {"preserve_module_call_signature": ("ema",)})
    for options in cases:
        program = capture(model, args, **options).run_decompositions({})
        nested = unflatten(program)
        assert_same_state(model, nested)
        assert_same_run(copy.deepcopy(model), nested, args, times=3)
        assert len(info(nested.bn).calls[0].arguments.names) == 1
        assert {len(call.arguments.names) for call in info(nested.ema).calls} == ({2} if options else {1})


def test_inputs_that_exchange_their_values() -> None:
    class Exchange(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            old = x.clone()
            x.copy_(y)
            y.copy_(old)
            return x + 2 * y

    args = (torch.randn(3), torch.randn(3))
    assert_unflattens(Exchange(), args)
    assert_unflattens(Exchange(), args, program=capture(Exchange(), args).run_decompositions({}))


def test_dynamic_programs_run_with_other_sizes() -> None:
    torch.manual_seed(0)
    model: Any = Net().eval()
    model.bn = nn.Identity()
    program = torch.export.export(model, (X,), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    for origin in (program, saved_and_loaded(program), program.run_decompositions({})):
        nested = unflatten(origin)
        for shape in ((3, 7, 4), (2, 5, 4), (9, 2, 4)):
            x = torch.randn(*shape)
            assert torch.equal(nested(x), origin.module()(x))
            assert torch.equal(nested.block(x), nested.block.get_submodule("")(x))


@pytest.mark.parametrize("thing", [nn.Linear(3, 3), None, "program", torch.fx.symbolic_trace(nn.Linear(3, 3))])
def test_anything_but_a_program_is_refused(thing: Any) -> None:
    with pytest.raises(NotAProgramError, match=r"expected a torch\.export\.ExportedProgram"):
        unflatten(thing)


def test_a_joint_program_is_refused() -> None:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x).sum()

    program = _export_forward_backward(capture(Loss(), (X,)))
    with pytest.raises(JointProgramError, match=r"computes gradients as well.*unflatten\.GraphView\(program\)"):
        unflatten(program)
    view = GraphView(program)
    assert view.fc.forward.nodes
    assert view.fc.backward_region.nodes


def program_of_linear() -> ExportedProgram:
    return capture(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (X,))


def test_a_missing_state_entry_is_named() -> None:
    program = program_of_linear()
    del program.state_dict["0.bias"]
    with pytest.raises(MissingStateError, match=r"parameter '0\.bias'"):
        unflatten(program)


def test_placeholders_and_signature_that_disagree_are_named() -> None:
    program = program_of_linear()
    program.graph_signature.input_specs.pop(0)
    with pytest.raises(SignatureMismatchError, match="3 placeholders, the signature 2 inputs"):
        unflatten(program)
    program = program_of_linear()
    specs = program.graph_signature.input_specs
    specs[0], specs[1] = specs[1], specs[0]
    with pytest.raises(SignatureMismatchError, match="'p_0_weight' stands where the signature has 'p_0_bias'"):
        unflatten(program)


def test_outputs_and_signature_that_disagree() -> None:
    program = program_of_linear()
    program.graph_signature.output_specs.clear()
    with pytest.raises(SignatureMismatchError, match="returns 1 values, the graph signature lists 0"):
        unflatten(program)


def test_a_graph_out_of_order_is_refused() -> None:
    program = program_of_linear()
    linear, relu = (node for node in program.graph.nodes if node.op == "call_function")
    linear.prepend(relu)
    with pytest.raises(GraphOrderError, match="'relu' uses 'linear' before it is computed"):
        unflatten(program)


def test_a_graph_with_a_cycle_is_refused() -> None:
    program = program_of_linear()
    linear, relu = (node for node in program.graph.nodes if node.op == "call_function")
    linear.update_arg(0, relu)
    with pytest.raises(GraphOrderError, match="'linear' uses 'relu'"):
        unflatten(program)


def test_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    nested = unflatten(capture(Net().train(), (X,)).run_decompositions({}))
    nested(X)
    with pytest.raises(ValueError, match="too many positional"):
        nested(X, X)
    assert capsys.readouterr() == ("", "")
