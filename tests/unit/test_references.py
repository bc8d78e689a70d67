"""Modules reached otherwise than as `self.child(...)`: references, methods, slices, second names."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.support.comparing import (
    assert_unflattens,
    capture,
)
from unflatten import export, unflatten

X = torch.randn(2, 3)


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


class Counting(nn.Module):
    """Has a buffer that it writes, and a tensor that is no state."""

    count: torch.Tensor

    def __init__(self, table: torch.Tensor, count: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("count", count)
        self.table = table

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * self.table / self.count


@pytest.mark.parametrize("called", [["a"], ["b"], ["a", "b"], ["b", "a", "b"]])
def test_a_module_with_a_constant_is_one_under_two_names(called: list[str]) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = Counting(torch.arange(3.0), torch.ones(()))
            self.b = self.a

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for name in called:
                x = self.get_submodule(name)(x)
            return x

    nested = assert_unflattens(Net(), (X,))
    assert nested.a is nested.b


def test_modules_with_constants_of_their_own_are_two_although_they_share_a_buffer() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            count = torch.ones(())
            self.a, self.b = Counting(torch.arange(3.0), count), Counting(torch.ones(3), count)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    nested = assert_unflattens(Net(), (X,))
    assert nested.a is not nested.b
    assert nested.a.count is nested.b.count


def test_a_result_that_is_given_on_and_written_is_one_value() -> None:
    class Halves(nn.Module):
        def forward(
            self, pair: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            x, y = pair
            x = x * mask
            x.mul_(0.5)
            return y, x

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.halves = Halves()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = self.halves((x.t().contiguous().t(), x), mask=x > 0)
            second.mul_(0.5)
            return torch.cat([first, second], 1)

    for program in (torch.export.export(Net(), (X,)), export(Net(), (X,))):
        assert torch.equal(unflatten(program)(X), Net()(X))


def test_a_sequential_whose_result_only_feeds_statistics_is_called_as_such() -> None:
    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.norm = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.BatchNorm1d(3)

        def forward(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"x": inputs["x"] * 2, "y": self.norm(self.layers(inputs["y"]))}

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.watched = nn.BatchNorm1d(3), Watched()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            result: torch.Tensor = self.watched({"x": x, "y": x})["x"]
            return result

    model = Net()
    nested = unflatten(export(model, (X,)).run_decompositions({}))
    assert type(nested.watched.layers) is nn.Sequential
    assert torch.equal(nested(X), model(X))
