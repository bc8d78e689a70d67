"""Calls of modules: several and different ones, through references and methods, with and without operators."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.comparing import assert_same_gradients, assert_same_run, assert_unflattens, capture
from unflatten import info, unflatten
from unflatten.errors import InputError, UnknownCallError, UnknownSignatureError


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
    assert len(info(nested.cell).bodies) == 1
    assert_same_gradients(model, nested, (X,))


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


def test_a_sibling_called_through_a_stored_reference() -> None:
    class Caller(nn.Module):
        other: nn.Module

        def __init__(self, other: nn.Module) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.__dict__["other"] = other

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.other(self.fc(x)) + self.fc(x)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
            self.a = Caller(self.b)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x) * 2)

    torch.manual_seed(0)
    model = Net()
    nested = assert_unflattens(model, (X,), program=torch.export.export(model, (X,)))
    calls: list[int] = []
    nested.b.register_forward_hook(lambda *_: calls.append(1))
    nested(X)
    assert len(calls) == 2
    nested.b = nn.Identity()
    assert torch.equal(nested(X), (model.a.fc(X) + model.a.fc(X)) * 2)
    assert torch.equal(copy.deepcopy(nested)(X), nested(X))


def test_methods_other_than_forward() -> None:
    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enc, self.dec = nn.Linear(3, 2), nn.Linear(2, 3)
            self.scale = nn.Parameter(torch.randn(2))

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self.enc(x) * self.scale

        def decode(self, z: torch.Tensor) -> torch.Tensor:
            return self.dec(z / self.scale.abs().add(1))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.coder = Coder()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.coder.encode(x)
            return self.coder.decode(z.relu()) + self.coder.decode(z)

    model = Net()
    nested = assert_unflattens(model, (X,))
    assert torch.equal(nested.coder.enc(X), model.coder.enc(X))


def test_a_module_that_calls_itself() -> None:
    class Nest(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, depth: int) -> torch.Tensor:
            x = self.fc(x).tanh()
            return (x + self(x, depth - 1) if depth else x) * (depth + 1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nest = Nest()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.nest(x, 2)

    assert_unflattens(Net(), (X,))


@pytest.mark.parametrize("strict", [False, True])
def test_modules_made_inside_forward_belong_to_their_maker(strict: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.seq = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = nn.ReLU()(self.fc(x))
            x = nn.Sequential(self.fc, nn.Tanh())(x)
            return self.seq[1:](x) + self.seq[:1](x)

    assert_unflattens(Net(), (X,), strict=strict)


@pytest.mark.parametrize("strict", [False, True])
def test_slices_of_containers_lead_to_the_modules_in_them(strict: bool) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x).relu()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(4))
            self.first = self.layers[0]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers[1:]:
                x = layer(x)
            for layer in self.layers[-2:]:
                x = layer(x)
            return self.layers[2](x)

    nested = unflatten(capture(Net(), (X,), strict=strict))
    counts = dict.fromkeys("0123", 0)
    for name in counts:
        nested.layers[int(name)].register_forward_hook(lambda *_, name=name: counts.__setitem__(name, counts[name] + 1))
    nested(X)
    assert counts == {"0": 0, "1": 1, "2": 3, "3": 2}


def test_a_module_under_two_names_in_strict_export_is_one_module() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
            self.b = self.a

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    nested = assert_unflattens(Net(), (X,), strict=True)
    assert nested.a is nested.b


def test_a_normalisation_shared_by_two_branches_is_one_module() -> None:
    class Branch(nn.Module):
        def __init__(self, norm: nn.Module) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(2, 2, 3, padding=1), norm

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.norm(self.conv(x)))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            norm = nn.BatchNorm2d(2)
            self.left, self.right = Branch(norm), Branch(norm)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.left(x).mean() + self.right(x[..., ::2]).mean()

    nested = assert_unflattens(Net(), (torch.randn(3, 2, 6, 6),))
    assert nested.left.norm is nested.right.norm


def test_in_place_modules_hand_on_what_they_return() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.act, self.drop = nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.drop(self.act(self.fc(x))) + 1

    model = Net().eval()
    nested = assert_unflattens(model, (X,))
    assert torch.equal(nested.act(X.clone()), X.relu())
    nested.act = nn.Tanh()
    assert torch.equal(nested(X), model.fc(X).tanh() + 1)


def test_what_the_order_of_arguments_decides_is_refused_where_it_was_not_recorded() -> None:
    class Minus(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return b - a

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.minus = Minus()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.minus(x, x + 1)

    nested = assert_unflattens(Net(), (X,))
    with pytest.raises(UnknownSignatureError, match=r"unflatten\.export"):
        nested.minus(X, X + 1)
    nested.minus = Minus()
    with pytest.raises(UnknownSignatureError, match=r"unflatten\.export"):
        nested(X)


def test_arguments_that_only_one_input_can_be_are_matched_whatever_their_order() -> None:
    class Scale(nn.Module):
        def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
            return x * by.sum()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = Scale()

        def forward(self, x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
            return self.scale(x, by)

    by = torch.randn(5)
    nested = assert_unflattens(Net(), (X, by))
    assert torch.equal(nested.scale(by, X), X * by.sum())
    assert torch.equal(nested.scale(x=X, by=by), X * by.sum())


def test_a_module_called_alone_refuses_sizes_that_it_was_not_captured_with() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.shape[0] > 1 else x - 100

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branches = Branches()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.branches(x)

    nested = unflatten(capture(Net(), (X,)))
    assert torch.equal(nested.branches(X), X * 2)
    with pytest.raises(InputError, match="size 1 in dimension 0, expected 2"):
        nested.branches(X[:1])
