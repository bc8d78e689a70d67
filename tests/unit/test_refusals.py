"""What calls of modules say of arguments that the program was not captured for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.support.wrapping import Inside, Plain
from unflatten import export, unflatten
from unflatten.errors import InputError

X = torch.linspace(-1, 1, 8).reshape(2, 4)
ROWS = Dim("rows", min=2, max=6)


@dataclass
class Pair:
    a: Any
    b: Any


class Held:
    """An object that says nothing of what it equals."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def whole(function: Callable[..., Any], *args: Any, shapes: Any) -> nn.Module:
    return unflatten(export(Plain(function), args, dynamic_shapes=(shapes,)))


def part(inner: Callable[..., Any], outer: Callable[..., Any], **options: Any) -> nn.Module:
    return unflatten(export(Inside(inner, outer), (X,), **options)).get_submodule("inner")


def rows(count: int) -> torch.Tensor:
    return torch.ones(count, 4)


def test_sizes_that_belong_together() -> None:
    equal = whole(lambda x, y: x + y, rows(3), rows(3), shapes=({0: ROWS}, {0: ROWS}))
    assert torch.equal(equal(rows(5), rows(5)), 2 * rows(5))
    with pytest.raises(InputError, match="has size 4 in dimension 0, expected 3, because argument `args_0` has size 3"):
        equal(rows(3), rows(4))
    with pytest.raises(InputError, match="`args_0` has size 7 in dimension 0, expected at most 6"):
        equal(rows(7), rows(7))
    double = whole(lambda x, y: x.sum() + y.sum(), rows(3), rows(6), shapes=({0: ROWS}, {0: 2 * ROWS}))
    assert double(rows(4), rows(8)) == 48
    with pytest.raises(InputError, match=r"`args_1` has size 4 in dimension 0, expected 2\*\w+ = 6"):
        double(rows(3), rows(4))


def test_arguments_that_were_one_tensor() -> None:
    inner = part(lambda x, y: x * y, lambda inner, x: inner(x, x))
    assert torch.equal(inner(X, X), X * X)
    assert torch.equal(inner(X, X.clone()), X * X)
    with pytest.raises(InputError, match="arguments `args_0` and `args_1` have to be one tensor"):
        inner(X, X + 1)


def test_fields_of_objects() -> None:
    inner = part(lambda pair: pair.a + pair.b, lambda inner, x: inner(Pair(x, x * 2)))
    assert torch.equal(inner(Pair(X, X)), X + X)
    with pytest.raises(InputError, match=r"argument `args_0\.b` is int, expected a tensor"):
        inner(Pair(X, 3))


def test_constants() -> None:
    inner = part(lambda x, number: x + 1, lambda inner, x: inner(x, math.nan))
    assert torch.equal(inner(X, float("nan")), X + 1)
    with pytest.raises(
        InputError, match=r"argument `args_1` is 1\.0; the program was captured for nan and nothing else"
    ):
        inner(X, 1.0)


def test_numbers() -> None:
    inner = part(
        lambda x, count: x * count, lambda inner, x: inner(x, x.shape[0]), dynamic_shapes=({0: Dim("rows", max=6)},)
    )
    assert torch.equal(inner(rows(3), 3), 3 * rows(3))
    with pytest.raises(InputError, match="argument `args_1` is str, expected a number"):
        inner(rows(3), "three")
    with pytest.raises(InputError, match="`args_1` is 4, expected 3, because argument `args_0` has size 3"):
        inner(rows(3), 4)


def test_objects_that_are_constants() -> None:
    inner = part(lambda x, held: x + held.value, lambda inner, x: inner(x, Held(value=3)))
    assert torch.equal(inner(X, Held(value=3)), X + 3)
    for other in (Held(value=4), Held(value=3, more=1)):
        with pytest.raises(InputError, match="args_1"):
            inner(X, other)
