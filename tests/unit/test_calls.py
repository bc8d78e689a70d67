"""Calls of modules: several and different ones, through references and methods, with and without operators."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.comparing import assert_same_gradients, assert_same_run, assert_unflattens, capture
from unflatten import info, unflatten
from unflatten.errors import UnknownCallError
from unflatten.info import known_calls


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor, minus: bool = False, times: int = 1) -> torch.Tensor:
        for _ in range(times):
            x = x - self.w if minus else x + self.w
        return x


class Chooses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, first: bool) -> torch.Tensor:
        return self.a(x) if first else self.b(x)


X = torch.randn(2, 3)


def test_calls_with_different_constants_keep_their_own_behaviour() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = Step()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.step(self.step(self.step(x, True, 1) * 2, False, 3), True, 1)

    nested = assert_unflattens(Net(), (X,))
    assert len(info(nested.step).bodies) == 2


def test_calls_that_choose_different_children_are_not_one_body() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.chooses = Chooses()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.chooses(x, True) - self.chooses(x, False)

    nested = assert_unflattens(Net(), (X,))
    assert len(info(nested.chooses).bodies) == 2


def test_equal_calls_are_one_body_whatever_is_used_of_them() -> None:
    class Pair(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.sin(), x.cos()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = Pair()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a, b = self.pair(x)
            c, _ = self.pair(a + b)
            _, d = self.pair(c)
            return d + c

    nested = assert_unflattens(Net(), (X,))
    assert len(info(nested.pair).bodies) == 1


def test_a_cell_unrolled_over_time_is_one_module_with_one_body() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(3, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h, c = x.new_zeros(2, 4), x.new_zeros(2, 4)
            for _ in range(4):
                h, c = self.cell(x, (h, c))
            return h, c

    model = Net()
    nested = assert_unflattens(model, (X,))
    assert type(nested.cell) is nn.LSTMCell
    assert len(known_calls(nested, "cell")) == 4
    assert_same_gradients(model, nested, (X,))
    generated = unflatten(capture(model, (X,)), native_leaves=False)
    assert len(info(generated.cell).bodies) == 1


def test_a_call_does_not_depend_on_what_was_called_before() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = Step()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.step(self.step(x, True, 1), False, 2)

    model = Net()
    nested = unflatten(capture(model, (X,), preserve_module_call_signature=("step",)))
    assert torch.equal(nested.step(X, False, 2), model.step(X, False, 2))
    assert torch.equal(nested.step(X, True, 1), model.step(X, True, 1))
    assert_same_run(model, nested, (X,))


def test_an_exception_in_a_hook_leaves_later_calls_right() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = Step()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.step(self.step(x, True), False, 2)

    model = Net()
    nested = unflatten(capture(model, (X,)))
    seen: list[int] = []

    def fail_at_second(*_: Any) -> None:
        seen.append(1)
        if len(seen) == 2:
            raise RuntimeError("stop")

    handle = nested.step.register_forward_pre_hook(fail_at_second)
    with pytest.raises(RuntimeError, match="stop"):
        nested(X)
    handle.remove()
    assert_same_run(model, nested, (X,))


def test_threads_do_not_disturb_one_another() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = Step()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.step(self.step(x, True), False, 2)

    model = Net()
    nested = unflatten(capture(model, (X,)))
    expected = model(X)
    wrong: list[int] = []

    def work() -> None:
        wrong.extend(1 for _ in range(50) if not torch.equal(nested(X), expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_optional_arguments_given_or_not() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(
            self, x: torch.Tensor, other: torch.Tensor | None = None, mask: torch.Tensor | None = None
        ) -> torch.Tensor:
            k = self.k(x if other is None else other)
            scores = self.q(x) @ k.T
            return (scores if mask is None else scores + mask).softmax(-1) @ k

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention()

        def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(x)
            x = x + self.attention(x, other)
            return x + self.attention(x, mask=torch.ones(2, 2))

    assert_unflattens(Net(), (X, torch.randn(5, 3)))


def test_modules_without_an_operator() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.drop = nn.Identity(), nn.Dropout(0.5)
            self.unused = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
            self.none = nn.ModuleList()
            self.box: Any = nn.Module()
            self.box.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.drop(self.box.fc(self.before(x)))

    assert_unflattens(Net().eval(), (X,))


def test_a_module_that_the_program_never_calls_says_so() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.spare = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with pytest.raises(UnknownCallError, match="'spare' is never called"):
        unflatten(capture(Net(), (X,))).spare(X)


def test_preserved_modules_that_hand_their_arguments_back() -> None:
    class Swap(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
            return {"y": y, "xs": [x, x], "w": self.w, "none": None, "n": 3}

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.swap = Swap()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            parts = self.swap(x, y)
            return parts["y"] * 2 + parts["xs"][0] - parts["w"]

    model, args = Net(), (X, X + 1)
    nested = assert_unflattens(model, args, preserve_module_call_signature=("swap",))
    assert_same_run(model.swap, nested.swap, args)


def test_results_with_constants_and_repeats() -> None:
    class Sub(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            y = x * self.w
            return {"y": y, "none": None, "n": 3, "again": (y, [y])}

    class Net(nn.Module):
        b: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.sub = Sub()
            self.register_buffer("b", torch.ones(2))

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"d": self.sub(x), "x": x, "w": self.sub.w, "b": self.b, "t": (None, True, 1.5, "s"), "e": []}

    model = Net()
    nested = assert_unflattens(model, (X,), preserve_module_call_signature=("sub",))
    assert_same_run(model.sub, nested.sub, (X,))
    assert_unflattens(model, (X,))
