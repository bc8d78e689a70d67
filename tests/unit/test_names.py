"""Names are data: whatever `nn.Module` accepts as a name is just a name."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import nn

from tests.support.comparing import assert_unflattens, capture
from unflatten import info, unflatten

X = torch.randn(2, 3)
KEYS = ["conv-1", "1x1", "for", "class", "a b", "x/y", "é", "0", "self", "torch", "F", "pick", "root", "None"]
ATTRIBUTES = [
    "graph", "code", "calls", "region", "type_name", "print_readable", "graph_module", "meta", "info", "place",
    "bodies", "definition", "constants", "path", "moved", "rebuild", "leaves", "args", "kwargs", "x", "linear",
]  # fmt: skip


class Holder(nn.Module):
    def __init__(self, name: str, kind: str) -> None:
        super().__init__()
        if kind == "parameter":
            self.register_parameter(name, nn.Parameter(torch.randn(3)))
        elif kind == "buffer":
            self.register_buffer(name, torch.randn(3))
        else:
            self.add_module(name, nn.Linear(3, 3))
        self.holds = name
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = getattr(self, self.holds)
        return held(x) if self.kind == "module" else x * held


class Outer(nn.Module):
    def __init__(self, name: str, kind: str) -> None:
        super().__init__()
        self.sub, self.top = Holder(name, kind), Holder(name, kind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.top(self.sub(x)) + self.sub(x)


@pytest.mark.parametrize("kind", ["parameter", "buffer", "module"])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_the_models_names_win(name: str, kind: str) -> None:
    model = Holder(name, kind)
    nested = assert_unflattens(model, (X,))
    assert isinstance(getattr(nested, name), nn.Module if kind == "module" else torch.Tensor)
    assert "forward" in info(nested).code
    assert_unflattens(Outer(name, kind), (X,))


def test_the_words_of_info_are_attributes_where_nothing_else_has_the_name() -> None:
    nested = unflatten(capture(nn.Sequential(nn.Linear(3, 3)), (X,)))
    assert nested.type_name == "torch.nn.modules.container.Sequential"
    assert nested.code == info(nested).code
    assert [node.op for node in nested.graph.nodes] == ["placeholder", "call_module", "output"]
    nested.code = nn.Identity()
    assert isinstance(nested.code, nn.Identity)


@pytest.mark.parametrize("key", KEYS)
def test_keys_that_are_no_identifiers(key: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({key: nn.Linear(3, 3), "other": nn.Linear(3, 3)})
            self.values = nn.ParameterDict({key: torch.randn(3)})

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.parts[key](self.parts["other"](self.parts[key](x))) * self.values[key]

    assert_unflattens(Net(), (X,))


def test_names_that_begin_alike() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.head2 = nn.Linear(3, 3), nn.Linear(3, 3)
            self.heads = nn.ModuleList([nn.Linear(3, 3)] + [nn.Linear(3, 3) for _ in range(10)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head2(self.head(x)) + self.heads[10](self.heads[1](x))

    assert_unflattens(Net(), (X,))


def test_a_child_whose_name_looks_like_a_second_call() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module("p@1", nn.Linear(3, 3))
            self.add_module("1", nn.Linear(3, 3))
            self.p = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            one = getattr(self, "1")
            return one(self.p(one(getattr(self, "p@1")(self.p(x)))))

    model = Net()
    nested = unflatten(capture(model, (X,)))
    assert torch.equal(nested(X), model(X))
    assert [name for name, _ in nested.named_children()] == ["p@1", "1", "p"]


def test_input_names_that_mean_something_to_the_code() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, torch: object, F: object, getattr: object, moved: object, cpu: object) -> object:  # noqa: A002
            return self.fc(torch) + F * getattr - moved + cpu.to(cpu.device)  # type: ignore[operator,attr-defined]

    assert_unflattens(Net(), (X, X, X, X, X))


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Namesakes(nn.Module):
    def __init__(self, *names: str) -> None:
        super().__init__()
        for name in names:
            self.add_module(name, nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> Pair:
        kept = [x]
        for child in self.children():
            for _ in range(3):
                kept.append(child(kept[-1] + kept[0]))  # each is made of those before
        return Pair(kept[0] * kept[1], sum(kept[1:], kept[0]))


@pytest.mark.parametrize("names", [("spec",), ("spec", "spec_1"), ("rebuild", "spec"), ("Pair", "Pair_1")])
def test_variables_leave_the_names_of_objects_alone(names: tuple[str, ...]) -> None:
    model = Namesakes(*names)
    nested = unflatten(torch.export.export(model, (torch.ones(1, 4),)))
    given, expected = nested(torch.ones(1, 4)), model(torch.ones(1, 4))
    assert torch.equal(given.first, expected.first)
    assert torch.equal(given.second, expected.second)
