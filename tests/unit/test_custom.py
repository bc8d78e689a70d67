"""Operators, objects, functions and containers that are not torch's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch.utils import _pytree as pytree

from tests.support.comparing import assert_same_gradients, assert_same_run, assert_unflattens, capture
from unflatten import info, unflatten

X = torch.randn(2, 3)
LOG: list[str] = []


@pytest.fixture(autouse=True)
def library() -> Iterator[Any]:
    LOG.clear()
    with torch.library._scoped_library("unflatten_tests", "DEF") as made:
        made.define("note(Tensor x, str word) -> Tensor")
        made.define("shout(str word) -> ()")
        made.define("fill(Tensor(a!) x, Tensor y) -> ()")
        made.define("pair(Tensor x) -> (Tensor, Tensor[])")
        made.impl("note", _note, "CompositeExplicitAutograd")
        made.impl("shout", LOG.append, "CompositeExplicitAutograd")
        made.impl("fill", _fill, "CompositeExplicitAutograd")
        made.impl("pair", lambda x: (x + 1, [x + 2, x + 3]), "CompositeExplicitAutograd")
        torch.library.register_fake("unflatten_tests::note", lambda x, word: torch.empty_like(x), lib=made)
        torch.library.register_fake("unflatten_tests::shout", lambda word: None, lib=made)
        torch.library.register_fake("unflatten_tests::fill", lambda x, y: None, lib=made)
        torch.library.register_fake(
            "unflatten_tests::pair",
            lambda x: (torch.empty_like(x), [torch.empty_like(x), torch.empty_like(x)]),
            lib=made,
        )
        handle = _register_effectful_op("unflatten_tests::note", _EffectType.ORDERED)
        yield torch.ops.unflatten_tests
        handle.destroy()


def _note(x: torch.Tensor, word: str) -> torch.Tensor:
    LOG.append(word)
    return x + 1


def _fill(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(y)


class Notes(nn.Module):
    def __init__(self, word: str) -> None:
        super().__init__()
        self.word, self.fc = word, nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.ops.unflatten_tests.note(x, self.word))


@pytest.mark.parametrize("functional", [False, True])
def test_operators_with_effects_keep_their_order_and_take_no_tokens(functional: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Notes("a"), Notes("b")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.b(x)
            z = self.a(x)
            return self.b(z) + y

    model = Net().requires_grad_(False)
    program = capture(model, (X,))
    if functional:
        program = program.run_decompositions({})
    nested = unflatten(program)
    LOG.clear()
    assert torch.equal(nested(X), model(X))
    assert LOG == ["b", "a", "b"] * 2
    assert torch.equal(nested.a(X), model.a(X))
    assert "token" not in info(nested).code + info(nested.a).code


def test_operators_without_results_are_run_in_order() -> None:
    class Shouts(nn.Module):
        def __init__(self, word: str) -> None:
            super().__init__()
            self.word = word

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.ops.unflatten_tests.shout(self.word)
            return x * 2

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Shouts("a"), Shouts("b")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.b(x)
            torch.ops.unflatten_tests.shout("root")
            return self.a(x) + y

    program = capture(Net(), (X,))
    reference, nested = program.module(), unflatten(program)
    for module in (reference, nested):
        LOG.clear()
        module(X)
        assert LOG == ["b", "root", "a"]


def test_operators_that_write_their_arguments() -> None:
    class Holder(nn.Module):
        held: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("held", torch.zeros(2, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before = self.held * 1
            torch.ops.unflatten_tests.fill(self.held, x)
            return before + self.held

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.holder = Holder()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.holder(self.holder(x) + 1)

    model = Net()
    assert_unflattens(model, (X,))
    assert_unflattens(model, (X,), program=capture(model, (X,)).run_decompositions({}))


def test_operators_with_several_results() -> None:
    class Sub(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
            first, rest = torch.ops.unflatten_tests.pair(x)
            return first * 2, rest

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sub = Sub()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, (a, b) = self.sub(x)
            return first + a * b

    assert_unflattens(Net(), (X,))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 3 * x**2


def test_custom_autograd_functions() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Cube.apply(self.fc(x)) * 2

    program = capture(Net(), (X,))
    assert_same_gradients(program.module(), unflatten(program), (X,))


@dataclass
class Output:
    hidden: torch.Tensor
    extra: tuple[torch.Tensor, None] | None = None


class Bag:
    def __init__(self, items: dict[str, Any]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and self.items == other.items

    def __hash__(self) -> int:
        return hash(tuple(self.items))


torch.export.register_dataclass(Output, serialized_type_name="tests.Output")
pytree.register_pytree_node(
    Bag,
    lambda bag: (list(bag.items.values()), list(bag.items)),
    lambda values, keys: Bag(dict(zip(keys, values, strict=True))),
    flatten_with_keys_fn=lambda bag: (
        [(pytree.MappingKey(key), value) for key, value in bag.items.items()],
        list(bag.items),
    ),
    serialized_type_name="tests.Bag",
)


def test_containers_that_others_registered() -> None:
    class Sub(nn.Module):
        def forward(self, bag: Bag) -> Output:
            return Output(bag.items["a"] + bag.items["b"], (bag.items["a"], None))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sub = Sub()

        def forward(self, bag: Bag) -> tuple[Output, Bag]:
            out = self.sub(bag)
            assert out.extra is not None
            return out, Bag({"again": out.hidden * out.extra[0], "same": out.hidden})

    model, args = Net(), (Bag({"a": X, "b": X + 1}),)
    nested = assert_unflattens(model, args, preserve_module_call_signature=("sub",))
    assert_same_run(model.sub, nested.sub, args)


def test_threads_inside_a_slow_operator() -> None:
    class Slow(nn.Module):
        def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
            time.sleep(0.001)
            return torch.ops.unflatten_tests.note(x, "slow") * k

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slow = Slow()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.slow(self.slow(x, 2), 5)

    model = Net()
    nested = unflatten(capture(model, (X,)))
    assert torch.equal(nested(X), model(X))
