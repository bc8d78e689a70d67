"""Calls of which a record can't tell everything, and what passes leave of records: right, or refused."""

from __future__ import annotations

import copy
import io
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

import unflatten
from tests.support.calling import assert_calls_alike
from tests.support.comparing import assert_same_run, capture
from unflatten import info
from unflatten.errors import InputError, UnknownSignatureError

X = torch.linspace(-1, 2, 8).view(2, 4)


class Calls(nn.Module):
    """Calls its child as a function says."""

    def __init__(self, child: nn.Module, how: Any) -> None:
        super().__init__()
        self.child, self.how = child, how

    def forward(self, x: torch.Tensor) -> Any:
        return self.how(self.child, x)


def nested_of(model: nn.Module, *args: Any) -> unflatten.UnflattenedModule:
    nested = unflatten.unflatten(unflatten.export(model, args or (X,)))
    assert_same_run(copy.deepcopy(model), copy.deepcopy(nested), args or (X,))
    return nested


def saved(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    return torch.export.load(io.BytesIO(file.getvalue()))


class Splits(nn.Module):
    def forward(self, x: torch.Tensor, k: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = x.chunk(2, -1)
        return left * k, right


class Top(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = x.topk(1)
        return values, places


class Adds(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b


@pytest.mark.parametrize("how", [saved, lambda program: program.run_decompositions({})], ids=["saved", "functional"])
def test_parts_of_tuples_keep_their_numbers(how: Any) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.splits, self.top, self.adds = Splits(), Top(), Adds()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left, right = self.splits(x, k=3)
            values, places = self.top(right + left)
            return self.adds(values, places)

    model = Model()
    program = unflatten.export(model, (X,))
    nested = unflatten.unflatten(how(program))
    assert info(nested).code == info(unflatten.unflatten(program)).code
    assert "self.splits(x, k=3)" in info(nested).code
    assert_calls_alike(model, nested, (X,))


def test_an_operator_without_an_effect_takes_no_call_with_it() -> None:
    class Scale(nn.Module):
        def forward(self, x: torch.Tensor, *, k: int = 2) -> torch.Tensor:
            return (x * k).to(x.dtype)

    model = Calls(Scale(), lambda child, x: child(x, k=3) + 1)
    nested = unflatten.unflatten(unflatten.export(model, (X,)).run_decompositions({}))
    assert info(nested).code == "def forward(self, x):\n    return self.child(x, k=3) + 1"


def test_a_result_that_is_gone_leaves_the_rest() -> None:
    class Several(nn.Module):
        def forward(self, x: torch.Tensor, *, k: int = 2) -> tuple[torch.Tensor, torch.Tensor, str]:
            return x * k, x + 1, "s"

    model = Calls(Several(), lambda child, x: child(x, k=3)[0] + 1)
    nested = unflatten.unflatten(unflatten.export(model, (X,)).run_decompositions({}))
    assert "self.child(x, k=3)[0]" in info(nested).code
    first, gone, text = nested.child(X, k=3)
    assert torch.equal(first, X * 3)
    assert text == "s"
    with pytest.raises(UnknownSignatureError, match="no longer a part of the program"):
        gone + 1


class Leaks(nn.Module):
    """Hands a tensor on by a side channel."""

    seen: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        type(self).seen = x * 2
        return x + 1


def test_what_leaves_a_module_by_another_way_does_not_change_its_result() -> None:
    model = Calls(Leaks(), lambda child, x: child(x) * Leaks.seen)
    nested = nested_of(model)
    assert torch.equal(nested.child(X), X + 1)
    nested.child = Leaks()
    with pytest.raises(UnknownSignatureError, match="does not tell how the module was called"):
        nested(X)


def test_written_arguments_are_no_silent_surprise() -> None:
    class Appends(nn.Module):
        def forward(self, x: torch.Tensor, into: list[torch.Tensor]) -> torch.Tensor:
            into.append(x * 2)
            return x + 1

    def how(child: nn.Module, x: torch.Tensor) -> torch.Tensor:
        into: list[torch.Tensor] = []
        return child(x, into) * into[0]

    nested = nested_of(Calls(Appends(), how))
    nested.child = Appends()
    with pytest.raises(UnknownSignatureError):
        nested(X)


def test_a_container_that_comes_back_is_the_result() -> None:
    class Same(nn.Module):
        def forward(self, pair: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            return pair

    class Zeros(nn.Module):
        def forward(self, pair: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            return pair[0] * 0, pair[1] * 0

    model = Calls(Same(), lambda child, x: sum(child((x, x + 1))))
    nested = nested_of(model)
    nested.child = Zeros()
    assert torch.equal(nested(X), torch.zeros_like(X))


def test_one_tensor_given_twice_may_not_be_two() -> None:
    nested = nested_of(Calls(Adds(), lambda child, x: child(x, x)))
    assert torch.equal(nested.child(X, X.clone()), X + X)
    with pytest.raises(InputError, match="`a` and `b` have to be one tensor"):
        nested.child(X, X + 1)


def test_one_tensor_twice_and_two_tensors() -> None:
    model = Calls(Adds(), lambda child, x: child(x, x) * child(x, x.neg()))
    nested = nested_of(model)
    assert_calls_alike(model, nested, (X,))


def test_a_result_that_nothing_uses_is_returned_all_the_same() -> None:
    model = Calls(nn.Linear(4, 4), lambda child, x: (child(x), x + 1)[1])
    nested = unflatten.unflatten(capture(model, (X,)), native_leaves=False)
    assert torch.equal(nested.child(X), nn.functional.linear(X, nested.child.weight, nested.child.bias))


@pytest.mark.parametrize("value", [torch.tensor([1.0, 2.0, 3.0, 4.0])])
def test_tensors_held_as_plain_attributes_are_passed(value: torch.Tensor) -> None:
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.adds = value, Adds()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.adds(x, self.table)

    nested = nested_of(Holds())
    assert info(nested).code == "def forward(self, x):\n    return self.adds(x, self.table)"


def test_names_that_python_reserves() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x & y

    model = Calls(Both(), lambda child, x: child((x > 0) | (x < -1), (x > 1) | (x < 2)))
    nested = unflatten.unflatten(capture(model, (X,)))
    assert torch.equal(nested(X), model(X))


def test_keywords_that_are_no_names_are_refused_and_doubled_ones_kept() -> None:
    class Keywords(nn.Module):
        def forward(self, a: torch.Tensor, /, **rest: torch.Tensor) -> torch.Tensor:
            return a + sum(rest.values())

    nested = nested_of(Calls(Keywords(), lambda child, x: child(x, a=x * 2)))
    assert info(nested).code == "def forward(self, x):\n    return self.child(x, a=x * 2)"
    nested = nested_of(Calls(Keywords(), lambda child, x: child(x, **{"a b": x * 2})))
    nested.child = Keywords()
    with pytest.raises(UnknownSignatureError):
        nested(X)


def test_what_was_unflattened_is_recorded_like_any_model() -> None:
    model = Calls(Splits(), lambda child, x: child(x)[0] + child(x, k=5)[0])
    nested = nested_of(model)
    again = nested_of(nested)
    assert info(again).code == info(nested).code


def test_the_tree_prints_as_the_model_does() -> None:
    class Odd(nn.Module):
        def __repr__(self) -> str:
            return "Odd(!)"

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.none, self.last = nn.Linear(4, 4), None, Odd()
            self.settings = OrderedDict(a=nn.ReLU)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.first(x))

    model = Model()
    assert repr(nested_of(model)) == repr(model)


def test_a_module_whose_result_is_gone_says_so() -> None:
    model = Calls(Splits(), lambda child, x: (child(x, k=3), x + 1)[1])
    nested = unflatten.unflatten(unflatten.export(model, (X,)).run_decompositions({}))
    assert torch.equal(nested(X), X + 1)
    with pytest.raises(InputError, match="no longer a part of the program"):
        nested.child(X, k=3)


def test_sizes_are_written_as_they_were() -> None:
    model = nn.Sequential(nn.AdaptiveAvgPool2d((1, 1)), nn.MaxPool2d((1, 1)), nn.Flatten())
    assert repr(nested_of(model, torch.randn(1, 2, 4, 4))) == repr(model)
