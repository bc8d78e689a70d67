"""Modules left out where the program writes in place."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from tests.support.comparing import capture
from unflatten import bypass, info, unflatten

X = torch.arange(-3.0, 5).view(2, 4)  # whole numbers: sums are exact in whatever order


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Writes(nn.Module):
    """Writes what its module was given, or what it gave, while both are in use."""

    def __init__(self, result: bool) -> None:
        super().__init__()
        self.doubled, self.result = Double(), result

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        y = self.doubled(x)
        (y if self.result else x).add_(10)
        return x * 100 + y


@pytest.mark.parametrize("result", [False, True])
def test_where_input_or_result_is_written_a_copy_is_handed_on(result: bool) -> None:
    program = capture(Writes(result), (X,))
    expected = (X + 1) * 100 + (X + 11) if result else (X + 11) * 100 + (X + 1)
    nested = unflatten(program)
    for tree in (nested, pickle.loads(pickle.dumps(unflatten(program)))):
        undone = bypass(tree, "doubled")
        assert "clone" in info(tree.doubled).code
        assert torch.equal(tree(X), expected)
        undone.undo()
        assert torch.equal(tree(X), Writes(result)(X))


def test_writes_before_the_call_and_in_it_need_no_copy() -> None:
    class Before(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.doubled, self.act = Double(), nn.ReLU(inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.doubled((x + 1).add_(1)).sin())

    nested = unflatten(capture(Before(), (X,)))
    bypass(nested, "doubled")
    bypass(nested, "act")
    assert info(nested.doubled).code.splitlines()[1:] == ["    return add"]
    assert "clone" not in info(nested.act).code
    assert torch.equal(nested(X), (X + 2).sin())


def test_two_that_are_left_out_do_not_share_what_is_written() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.act = Double(), Double(), nn.ReLU(inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.second(self.first(x))) * 10 + x

    x = X.clone()
    for order in (("first", "second"), ("second", "first")):
        nested = unflatten(capture(Residual(), (x,)))
        for name in order:
            bypass(nested, name)
        given = x.clone()
        assert torch.equal(nested(given), x.relu() * 10 + x)
        assert torch.equal(given, x)


def test_what_a_scan_gives_is_never_its_input() -> None:
    class Sums(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total: torch.Tensor = scan(lambda a, b: (a + b, a * b), x[0], x)[1]
            return total

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sums = Sums()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.sums(x).mul_(0.5)

    nested, x = unflatten(capture(Outer(), (X,))), X.clone()
    bypass(nested, "sums")
    assert torch.equal(nested(x), X * 0.5)
    assert torch.equal(x, X)
