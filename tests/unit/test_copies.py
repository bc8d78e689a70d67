"""What can be done with the result: copy, pickle, compile, trace, export again, transform, checkpoint."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.export import Dim
from torch.utils.checkpoint import checkpoint

from tests.support.comparing import assert_same_gradients, assert_same_run, capture, differences
from unflatten import UnflattenedModule, info, unflatten

X = torch.randn(2, 3)


class Step(nn.Module):
    n: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(3))
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
        self.n += 1
        return x * self.w + k + torch.tensor([1.0, 2.0, 3.0])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(3, 3), nn.Linear(3, 3)
        self.fc2.weight = self.fc1.weight
        self.step = Step()

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.step(self.fc2(self.step(self.fc1(x), 1)), 2)
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        with torch.no_grad():
            y = y + 1
        return {"out": x * scale + y, "rows": torch.func.vmap(torch.sin)(x)}


KWARGS = {"scale": torch.randn(3)}


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"out": self.fc(self.body(x)) * scale + self.body(x)}


@pytest.fixture(params=[Net, Plain])
def model(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    made: nn.Module = request.param()
    return made


def nested_of(model: nn.Module, **options: Any) -> UnflattenedModule:
    return unflatten(capture(model, (X,), KWARGS, **options))


def test_deep_copies_are_independent_and_keep_ties(model: nn.Module) -> None:
    nested = nested_of(model)
    twin = copy.deepcopy(nested)
    with torch.no_grad():
        for parameter in nested.parameters():
            parameter.zero_()
    nested(X, **KWARGS)
    assert_same_run(model, twin, (X,), KWARGS)
    if isinstance(model, Net):
        assert twin.fc1.weight is twin.fc2.weight


def test_a_submodule_can_be_copied_alone(model: nn.Module) -> None:
    nested = nested_of(model)
    name = "fc1" if isinstance(model, Net) else "body"
    twin = copy.deepcopy(nested.get_submodule(name))
    assert torch.equal(twin(X), model.get_submodule(name)(X))


def test_pickled_and_saved_modules_run(model: nn.Module) -> None:
    nested = nested_of(model)
    file = io.BytesIO()
    torch.save(nested, file)
    file.seek(0)
    for loaded in (pickle.loads(pickle.dumps(nested)), torch.load(file, weights_only=False)):
        assert_same_run(copy.deepcopy(model), loaded, (X,), KWARGS)
        assert info(loaded).code == info(nested).code
        assert [node.op for node in info(loaded).graph.nodes] == [node.op for node in info(nested).graph.nodes]
        with pytest.raises(ValueError, match="`x`"):
            loaded(X[:1], **KWARGS)


def test_a_saved_module_loads_in_another_process(model: nn.Module, tmp_path: Path) -> None:
    nested = nested_of(model)
    torch.save(nested, tmp_path / "nested.pt")
    torch.save((X, KWARGS), tmp_path / "args.pt")
    script = (
        "import sys, torch\n"
        "nested = torch.load(sys.argv[1] + '/nested.pt', weights_only=False)\n"
        "x, kwargs = torch.load(sys.argv[1] + '/args.pt')\n"
        "torch.save(nested(x, **kwargs), sys.argv[1] + '/out.pt')\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=120)
    assert not differences(model(X, **KWARGS), torch.load(tmp_path / "out.pt"))


def test_compiles_whole_and_only_once(model: nn.Module) -> None:
    nested, graphs = nested_of(model), []

    def backend(graph: fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(nested, backend=backend, fullgraph=True)
    reference = copy.deepcopy(model)
    for _ in range(4):
        assert not differences(reference(X, **KWARGS), compiled(X, **KWARGS))
    assert len(graphs) == 1


def test_nested_arguments_compile_whole() -> None:
    class Nested(nn.Module):
        def forward(self, items: list[torch.Tensor], more: dict[str, tuple[torch.Tensor, int]]) -> list[torch.Tensor]:
            return [item * more["k"][0] + more["k"][1] for item in items]

    args = ([X, X + 1], {"k": (X, 3)})
    nested = unflatten(torch.export.export(Nested(), args))
    torch._dynamo.reset()
    compiled = torch.compile(nested, backend="eager", fullgraph=True)
    assert not differences(Nested()(*args), compiled(*args))


def test_submodules_compile_alone() -> None:
    torch.manual_seed(0)
    model = Plain()
    nested = unflatten(
        capture(model, (X,), KWARGS), native_leaves=False
    )  # torch can't compile a lone nn.Linear in place
    torch._dynamo.reset()
    compiled = torch.compile(nested.body, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), model.body(X))
    nested.body.compile(backend="eager", fullgraph=True)
    assert_same_run(model, nested, (X,), KWARGS)


def test_exported_again_with_the_same_dynamic_shapes() -> None:
    torch.manual_seed(0)
    model = Plain()
    shapes = {"x": {0: Dim("n", max=64)}, "scale": None}
    nested = nested_of(model, dynamic_shapes=shapes)
    for strict in (False, True):
        again = torch.export.export(nested, (X,), KWARGS, dynamic_shapes=shapes, strict=strict)
        x = torch.randn(7, 3)
        assert not differences(model(x, **KWARGS), again.module()(x, **KWARGS))
        twice = unflatten(again)
        assert [name for name, _ in twice.named_modules()] == [name for name, _ in model.named_modules()]
        assert not differences(model(x, **KWARGS), twice(x, **KWARGS))


def test_exported_again_is_the_same_program(model: nn.Module) -> None:
    program = capture(model, (X,), KWARGS)
    nested = unflatten(program)
    again = torch.export.export(nested, (X,), KWARGS)
    assert_same_run(model, unflatten(again), (X,), KWARGS)
    if isinstance(model, Plain):
        operators = [node.target for node in program.graph.nodes if node.op == "call_function"]
        assert [node.target for node in again.graph.nodes if node.op == "call_function"] == operators


def test_traced_by_fx() -> None:
    torch.manual_seed(0)
    model = Plain()
    traced = fx.symbolic_trace(nested_of(model))
    assert not differences(model(X, **KWARGS), traced(X, **KWARGS))
    assert [node.name for node in traced.graph.nodes if node.op == "placeholder"] == ["x", "scale"]


def test_fx_tracers_can_keep_submodules_whole() -> None:
    class Tracer(fx.Tracer):
        def is_leaf_module(self, module: nn.Module, name: str) -> bool:
            return isinstance(module, UnflattenedModule) or super().is_leaf_module(module, name)

    nested = nested_of(Plain())
    called = [node.target for node in Tracer().trace(nested).nodes if node.op == "call_module"]
    assert called == ["body.0", "body.1", "body.2", "fc", "body.0", "body.1", "body.2"]


def test_functional_call_uses_the_given_parameters() -> None:
    torch.manual_seed(0)
    model = Plain()
    nested = nested_of(model)
    other = {name: torch.randn_like(value) for name, value in model.named_parameters()}
    expected = torch.func.functional_call(model, other, (X,), KWARGS)
    assert not differences(expected, torch.func.functional_call(nested, other, (X,), KWARGS))
    assert_same_run(model, nested, (X,), KWARGS)


def test_vmapped_over_inputs_and_over_parameters() -> None:
    torch.manual_seed(0)
    model = Plain()
    nested = nested_of(model)
    xs = torch.randn(5, 2, 3)
    expected = torch.func.vmap(lambda x: model(x, **KWARGS)["out"])(xs)
    torch.testing.assert_close(torch.func.vmap(lambda x: nested(x, **KWARGS)["out"])(xs), expected)
    gradient = torch.func.grad(lambda p: torch.func.functional_call(nested, p, (X,), KWARGS)["out"].sum())
    wanted = torch.func.grad(lambda p: torch.func.functional_call(model, p, (X,), KWARGS)["out"].sum())
    parameters = dict(model.named_parameters())
    assert not differences(wanted(parameters), gradient(parameters))


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing_over_the_whole_and_inside(reentrant: bool) -> None:
    torch.manual_seed(0)
    model = Plain()
    nested = nested_of(model)
    x = X.clone().requires_grad_()

    class Checkpointed(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *args: Any) -> Any:
            return checkpoint(self.inner, *args, use_reentrant=reentrant)

    expected = model(x, **KWARGS)["out"].square().sum()
    (wanted,) = torch.autograd.grad(expected, model.fc.weight)
    whole = checkpoint(lambda x: nested(x, **KWARGS)["out"], x, use_reentrant=reentrant).square().sum()
    whole.backward()
    assert torch.equal(nested.fc.weight.grad, wanted)
    nested.zero_grad()
    nested.body = Checkpointed(nested.body)
    nested(x, **KWARGS)["out"].square().sum().backward()
    assert torch.equal(nested.fc.weight.grad, wanted)


def test_checkpointing_a_module_whose_argument_order_is_a_guess() -> None:
    class Minus(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return (b - a * self.w).sin()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.minus = Minus()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.minus(x, x + 1)

    class Checkpointed(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return checkpoint(self.inner, *args, use_reentrant=False, **kwargs)

    model: Any = Outer()
    nested: Any = unflatten(capture(model, (X,)))
    nested.minus = Checkpointed(nested.minus)
    model(X).sum().backward()
    nested(X).sum().backward()
    assert torch.equal(nested.minus.inner.w.grad, model.minus.w.grad)


def test_hooks_fire_once_a_call(model: nn.Module) -> None:
    nested = nested_of(model)
    counts: dict[str, list[str]] = {"model": [], "nested": []}
    for which, module in (("model", model), ("nested", nested)):
        for name, inner in module.named_modules():
            inner.register_forward_hook(lambda *_, name=name, which=which: counts[which].append(name))
        module(X, **KWARGS)
    assert sorted(counts["nested"]) == sorted(counts["model"])


def test_trains_like_the_original(model: nn.Module) -> None:
    nested = unflatten(capture(model, (X,), KWARGS), copy_state=True)
    for _ in range(3):
        for module in (model, nested):
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            optimizer.zero_grad()
            module(X, **KWARGS)["out"].square().sum().backward()
            optimizer.step()
        assert not differences(dict(model.state_dict()), dict(nested.state_dict()))
    assert_same_gradients(model, nested, (X,), KWARGS)
