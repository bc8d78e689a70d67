"""Blocks under modes, control flow, transforms: operators that are given code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from tests.support.comparing import assert_same_gradients, assert_same_run, assert_unflattens, capture
from unflatten import export, info, unflatten

X = torch.randn(4, 3)
STRICT = pytest.mark.parametrize("strict", [False, True])


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).relu()


@STRICT
def test_calls_inside_of_blocks_stay_calls(strict: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Layer(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = self.a(x) + 1
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = self.b(x)
            return self.a(y) + z

    model = Net()
    nested = assert_unflattens(model, (X,), strict=strict)
    assert_same_gradients(model, nested, (X,))
    counts: list[str] = []
    nested.a.register_forward_hook(lambda *_: counts.append("a"))
    nested.b.fc.register_forward_hook(lambda *_: counts.append("b.fc"))
    nested(X)
    assert sorted(counts) == ["a", "a", "b.fc"]
    assert "with torch.no_grad():" in info(nested).code
    assert "with torch.autocast('cpu', dtype=torch.bfloat16" in info(nested).code
    assert len(info(nested.a).bodies) == 1
    assert "with" not in info(nested.a).code


def test_a_block_belongs_to_the_code_that_opens_it() -> None:
    class Rotary(nn.Module):
        freq: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("freq", torch.rand(3), persistent=False)

        @torch.no_grad()
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            with torch.autocast("cpu", enabled=False):
                angle = x.float() * self.freq
            return angle.cos(), angle.sin()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rotary, self.layer = Rotary(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            cos, sin = self.rotary(x)
            return self.layer(x * cos) + sin

    model = Net()
    nested = assert_unflattens(model, (X,))
    assert_same_gradients(model, nested, (X,))
    assert "no_grad" in info(nested.rotary).code
    assert "no_grad" not in info(nested).code


def test_gradients_switched_back_on_inside() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Layer(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.a(x)
            with torch.enable_grad():
                x = self.b(x)
            return x * 2

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last = Inner(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                x = self.inner(x)
                x = x + 1
            return self.last(x)

    model = Net()
    nested = assert_unflattens(model, (X,))
    assert_same_gradients(model, nested, (X,))
    assert len(info(nested.inner).bodies) == 1


def test_modes_are_restored_after_an_exception() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                return self.layer(x)

    nested = unflatten(capture(Net(), (X,)))

    def stop(*_: Any) -> None:
        raise RuntimeError("stop")

    handle = nested.layer.fc.register_forward_pre_hook(stop)
    with pytest.raises(RuntimeError, match="stop"):
        nested(X)
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    handle.remove()
    assert nested(X).dtype == torch.bfloat16


@STRICT
def test_branches(strict: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.after = Layer(), Layer(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.cond(x.sum() > 0, lambda x: self.a(x) + 1, lambda x: self.b(x) * 2, (x,))
            return self.after(y) + self.a(x)

    model = Net().requires_grad_(False)
    nested = assert_unflattens(model, (X.abs(),), strict=strict)
    assert_same_run(model, nested, (-X.abs(),))


@STRICT
def test_branches_train(strict: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Layer(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: self.a(x) + 1, lambda x: self.b(x) * 2, (x,))

    model = Net()
    nested = unflatten(capture(model, (X,), strict=strict))
    for x in (X.abs(), -X.abs()):
        assert_same_gradients(model, nested, (x,))


@STRICT
def test_branches_inside_a_submodule_that_is_called_twice(strict: bool) -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Layer(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: self.a(x), lambda x: self.b(x), (x,))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(self.inner(x) - 1)

    model = Net().requires_grad_(False)
    nested = assert_unflattens(model, (X,), strict=strict)
    assert len(info(nested.inner).bodies) == 1
    assert torch.equal(nested.inner(X), model.inner(X))


@STRICT
def test_loops(strict: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = Layer()

        def forward(self, n: torch.Tensor, x: torch.Tensor) -> Any:
            return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, self.a(x)), (torch.zeros_like(n), x))

    model = Net().requires_grad_(False)
    nested = assert_unflattens(model, (torch.tensor(3), X), strict=strict)
    assert_same_run(model, nested, (torch.tensor(5), X))


@STRICT
def test_scans(strict: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = Layer()

        def forward(self, x: torch.Tensor) -> Any:
            def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                new = self.a(carry + row)
                return new, new * 2

            return scan(step, x[0], x)

    assert_unflattens(Net().requires_grad_(False), (X,), strict=strict)


@STRICT
def test_rows_mapped_by_modules_that_are_called_outside_too(strict: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Layer(), Layer()

        def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return map_rows(lambda x, y: self.b(self.a(x)) + y, xs, y) + self.a(xs)  # type: ignore[arg-type]

    assert_unflattens(Net().requires_grad_(False), (torch.randn(4, 2, 3), torch.randn(3)), strict=strict)


def test_associative_scans() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return associative_scan(lambda a, b: a * b + a, self.fc(x), 0, combine_mode="generic")

    assert_unflattens(Net().requires_grad_(False), (X,))


def test_regions_that_are_compiled_once() -> None:
    @torch.compiler.nested_compile_region
    def region(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Layer(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(region(self.a(x))) + region(x)

    program = torch.export.export(Net().requires_grad_(False), (X,), strict=True)
    nested = unflatten(program)
    assert torch.equal(nested(X), program.module()(X))


def test_vmapped_modules() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = Layer(), Layer()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = torch.func.vmap(lambda row: self.inner(row) * 2)(x)
            both = torch.func.vmap(torch.func.vmap(lambda a, b: a * b + b.sin()))(rows, x)
            return self.outer(both) + rows.relu()

    model = Net()
    nested = assert_unflattens(model, (X,))
    assert_same_gradients(model, nested, (X,))


def test_flex_attention_with_a_parameter_in_its_score() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.bias = nn.Linear(16, 48), nn.Parameter(torch.randn(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, t, c = x.shape
            q, k, v = (part.view(b, t, 2, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))

            def score(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
                return score + self.bias[h] * (i - j)

            out = flex_attention(q, k, v, score_mod=score)
            assert isinstance(out, torch.Tensor)
            return out.transpose(1, 2).reshape(b, t, c)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Attention(), Attention()])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = x + layer(x)
            return x

    model = Net().requires_grad_(False).eval()
    x = torch.randn(2, 16, 16)
    program = torch.export.export(model, (x,), strict=True)
    assert torch.equal(unflatten(program)(x), program.module()(x))


@pytest.mark.parametrize("parts", [2, 3])
def test_the_same_body_given_different_operands(parts: int) -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor, k: float) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x * self.w + k, lambda x: x - k, (x,))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for k in range(parts):
                x = self.inner(x, float(k // 2))
            return x

    nested = assert_unflattens(Net().requires_grad_(False), (X,))
    assert len(info(nested.inner).bodies) == 1 + (parts > 2)


class Chooses(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cond(x.sum() > 0, lambda x: x * self.factor, lambda x: x - self.factor, (x,))
        return torch.cond(x.sum() > 1, lambda x: x + self.factor, lambda x: x / self.factor, (x,))


def test_graphs_are_called_alike_wherever_they_stand_in_the_program() -> None:
    nested = unflatten(export(nn.Sequential(Chooses(2.0), Chooses(3.0)), (torch.ones(3),)))
    codes = [info(nested.get_submodule(name)).code for name in ("0", "1")]
    assert codes[0] == codes[1]
    for name in ("true_graph,", "false_graph,", "true_graph_1,", "false_graph_1,"):
        assert name in codes[0]
