"""Values in written code: containers, objects, numbers and devices."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import unflatten
from tests.support.wrapping import Inside, Plain
from tests.unit.source.checking import write
from unflatten import source
from unflatten.errors import SourceError

X = torch.linspace(-1, 1, 8).reshape(2, 4)
INDEX = torch.tensor([0, 1])


class Listed:
    """A container that is made from a list of its items."""

    def __init__(self, items: Any) -> None:
        self.items = tuple(items)


class Spread:
    """A container that is made from its items."""

    def __init__(self, *items: Any) -> None:
        self.items = items


class Filled:
    """A container that is filled later."""

    def __init__(self) -> None:
        self.items: tuple[Any, ...] = ()


def filled(items: Any) -> Filled:
    made = Filled()
    made.items = tuple(items)
    return made


def register(kind: Any, make: Callable[[Any], Any]) -> None:
    name = f"tests.unit.source.test_values.{kind.__name__}"
    pytree.register_pytree_node(
        kind, lambda value: (list(value.items), None), lambda items, _: make(items), serialized_type_name=name
    )


register(Listed, Listed)
register(Spread, lambda items: Spread(*items))
register(Filled, filled)


class Bare:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


@dataclass
class Pair:
    a: Any
    b: Any


def text_of(function: Callable[..., Any], *args: Any) -> str:
    return source.text_of(unflatten.export(Plain(function), args or (X,)))


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: deque([x, x + 1]), "collections.deque([{x}, {x} + 1])"),
        (lambda x: OrderedDict({"a b": x}), 'collections.OrderedDict([("a b", {x})])'),
        (lambda x: OrderedDict(a=x), "collections.OrderedDict(a={x})"),
        (lambda x: {1: x, (2, "b"): x + 1}, '{{1: {x}, (2, "b"): {x} + 1}}'),
        (lambda x: {"t": (x,), "l": [x, [x + 1]], "u": ()}, '{{"t": ({x},), "l": [{x}, [{x} + 1]], "u": ()}}'),
        (lambda x: Listed([x, x + 1]), "Listed([{x}, {x} + 1])"),
        (lambda x: Spread(x, x + 1), "Spread({x}, {x} + 1)"),
        (lambda x: filled([]), "Filled()"),
        (lambda x: torch.add(x, 1 + 2j), "torch.add({x}, complex(1.0, 2.0))"),
        (lambda x: x + torch.ones(4, device="cpu"), "{x} + torch.ones([4], device={x}.device)"),
        (lambda x: x.double().to("cpu", torch.int32), "{x}.to(torch.float64).to({x}.device, torch.int32)"),
    ],
)
def test_results(function: Callable[..., Any], wanted: str) -> None:
    text = text_of(function)
    name = text.rpartition("def forward(self, ")[2].partition(")")[0]
    assert wanted.format(x=name) in text


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda x: filled([x]), "takes or returns a Filled, which can't be made from its parts by name"),
        (lambda x: OrderedDict({object: x}), "OrderedDict, which can't be made from its parts by name"),
    ],
)
def test_containers_that_no_code_makes(function: Callable[..., Any], named: str) -> None:
    with pytest.raises(SourceError, match=named):
        text_of(function)


def test_a_class_that_no_import_leads_to() -> None:
    class Local(Listed):
        pass

    pytree.register_pytree_node(
        Local,
        lambda value: (list(value.items), None),
        lambda items, _: Local(items),
        serialized_type_name="tests.Local",
    )
    with pytest.raises(SourceError, match=r"<locals>\.Local'>, which no import leads to"):
        text_of(lambda x: Local([x]))


def test_rows_and_columns_by_index(tmp_path: Path) -> None:
    text = write(tmp_path, Plain(lambda x, at: (x[at, at], x[:, at])), (X, INDEX)).text
    assert (
        "index = args_0[args_1, args_1]\n        args_0 = torch.ops.aten.index.Tensor(args_0, [None, args_1])\n" in text
    )


@pytest.mark.parametrize("kind", [Bare, Pair])
def test_objects_between_modules(tmp_path: Path, kind: Any) -> None:
    model = Inside(lambda pair: kind(pair.a + 1, pair.b * 2), lambda inner, x: inner(kind(x, x - 1)).b)
    text = write(tmp_path, model, (X,)).text
    assert f"return {kind.__name__}(a=args_0.a + 1, b=args_0.b * 2)" in text
    assert f"return self.inner({kind.__name__}(a=x, b=x - 1)).b" in text


def test_containers_between_modules(tmp_path: Path) -> None:
    model = Inside(lambda pair: Listed([pair.items[0] + 1, pair.items[1] * 2]), unpacked)
    text = write(tmp_path, model, (X,)).text
    assert "        # args_0[leaf 0]: float32[2, 4], args_0[leaf 1]: float32[2, 4] -> " in text
    assert "        mul = torch.utils._pytree.tree_leaves(args_0)[1] * 2\n        return Listed([add, mul])\n" in text


def unpacked(inner: Any, x: torch.Tensor) -> torch.Tensor:
    first, second = inner(Listed([x, x - 1])).items
    total: torch.Tensor = first + second
    return total


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = first = x.sin()
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden + first


def test_a_loop_over_layers_leaves_what_is_used_after_it(tmp_path: Path) -> None:
    text = write(tmp_path, Layers(), (X,)).text
    assert "        relu = x\n        for layer in self.layers:\n            relu = layer(relu)\n" in text
    assert "        return relu + x\n" in text
