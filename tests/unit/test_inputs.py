"""Arguments: how they may be given, and which are refused, with the argument named."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.support.comparing import assert_same_run, assert_unflattens, capture, differences
from unflatten import unflatten
from unflatten.errors import InputError

X = torch.randn(4, 3)
AUTO = Dim.AUTO


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Batch:
    ids: torch.Tensor
    mask: torch.Tensor


torch.export.register_dataclass(Batch)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, y: dict[str, torch.Tensor], *, scale: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * y["k"].sum() + y["j"] - scale


ARGS = (X, {"k": torch.randn(2), "j": torch.randn(3)})
KWARGS = {"scale": torch.randn(3)}


def test_keywords_in_any_order_and_by_position() -> None:
    model = Net()
    nested = assert_unflattens(model, ARGS, KWARGS)
    expected = model(*ARGS, **KWARGS)
    x, y, scale = *ARGS, KWARGS["scale"]
    assert torch.equal(nested(scale=scale, y=y, x=x), expected)
    assert torch.equal(nested(x, y, scale), expected)
    assert torch.equal(nested(x, dict(reversed(y.items())), scale=scale), expected)


def test_captured_by_keyword_only() -> None:
    class Keyword(nn.Module):
        def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None, flag: bool = True) -> dict[str, Any]:
            return {"out": ids if mask is None else ids * mask, "flag": flag}

    nested = assert_unflattens(Keyword(), (), {"mask": X, "ids": X + 1})
    assert_same_run(Keyword(), nested, (X + 1, X))


def test_nested_and_registered_containers() -> None:
    class Containers(nn.Module):
        def forward(self, batch: Batch, pair: Pair, rest: list[Any]) -> tuple[Any, ...]:
            (a, (b, c)), d = rest
            total = batch.ids * batch.mask + pair.left - pair.right
            return Pair(total, a * b), Batch(c, d["x"]), OrderedDict(z=total, a=d["x"])

    args = (Batch(X, X + 1), Pair(X, X * 2), [(X, [X, X - 1]), {"x": X}])
    assert_unflattens(Containers(), args)


def test_variable_arguments() -> None:
    class Variable(nn.Module):
        def forward(self, first: torch.Tensor, *rest: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
            return first + sum(rest) * named["a"] - named["b"]

    nested = assert_unflattens(Variable(), (X, X + 1, X + 2), {"b": X, "a": X * 2})
    assert_same_run(Variable(), nested, (X, X + 1, X + 2), {"a": X * 2, "b": X})


def test_no_arguments() -> None:
    class Nothing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self) -> torch.Tensor:
            return torch.randn(2, 3) * self.w

    assert_unflattens(Nothing(), ())


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((X[:2], ARGS[1]), KWARGS, "`x` has size 2 in dimension 0, expected 4"),
        ((X[None], ARGS[1]), KWARGS, "`x` has 3 dimensions"),
        ((3, ARGS[1]), KWARGS, "`x` is int, expected a tensor"),
        ((X,), KWARGS, "missing a required argument: 'y'"),
        ((*ARGS, X, X), {}, "too many positional arguments"),
        (ARGS, {"size": X}, "'scale'"),
        ((X, {"k": X, "q": X}), KWARGS, "`y` nests as"),
        ((X, {"k": torch.randn(2, 2), "j": torch.randn(3)}), KWARGS, r"`y\['k'\]` has 2 dimensions"),
    ],
)
def test_arguments_that_do_not_fit_are_named(args: Any, kwargs: Any, says: str) -> None:
    nested = unflatten(capture(Net(), ARGS, KWARGS))
    with pytest.raises(InputError, match=says):
        nested(*args, **kwargs)


def test_all_that_is_wrong_is_said_at_once() -> None:
    nested = unflatten(capture(Net(), ARGS, KWARGS))
    with pytest.raises(InputError) as error:
        nested(X[:2], ARGS[1], scale=torch.randn(5))
    assert "`x`" in str(error.value)
    assert "`scale`" in str(error.value)


def test_constants_are_the_ones_that_were_captured() -> None:
    class Constant(nn.Module):
        def forward(self, x: torch.Tensor, n: int, s: str, f: float, b: bool, none: None = None) -> torch.Tensor:
            return x * n + (f if b else -f) + len(s)

    good = (X, 2, "ab", 0.5, True)
    nested = assert_unflattens(Constant(), good)
    for at, wrong in ((1, 3), (1, 2.0), (1, True), (2, "abc"), (3, 0.25), (4, False), (4, 1)):
        args = tuple(wrong if place == at else value for place, value in enumerate(good))
        with pytest.raises(InputError, match="captured for"):
            nested(*args)


def test_ranges_equalities_divisibility_and_derived_sizes() -> None:
    class Sizes(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return x.sum() + y.sum() + z.reshape(2, -1).sum() if x.shape[0] % 2 == 0 else x

    n = Dim("n", min=4, max=16)
    sizes = {"x": {0: 2 * n}, "y": {0: 2 * n}, "z": {0: 2 * n + 2}}
    program = torch.export.export(Sizes(), (torch.ones(8, 1), torch.ones(8), torch.ones(10)), dynamic_shapes=sizes)
    nested, flat = unflatten(program), program.module()
    for a in range(2, 40):
        for b, c in ((a, a + 2), (a + 2, a + 2), (a, a + 4)):
            args = (torch.ones(a, 1), torch.ones(b), torch.ones(c))
            expected, given = _outcome(flat, args), _outcome(nested, args)
            assert (expected is None) == (given is None), (a, b, c)


def _outcome(module: nn.Module, args: tuple[torch.Tensor, ...]) -> torch.Tensor | None:
    try:
        result: torch.Tensor = module(*args)
    except (InputError, RuntimeError, AssertionError, ValueError):
        return None
    return result


def test_branches_taken_on_sizes_are_guarded() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x * 2 if x.shape[0] > 5 else x - 100
            return x + (1 if x.shape[0] % 2 == 0 else -1)

    program = torch.export.export(Branches(), (torch.randn(8, 3),), dynamic_shapes={"x": {0: AUTO}})
    nested, flat = unflatten(program), program.module()
    for size in range(1, 14):
        x = (torch.randn(size, 3),)
        expected, given = _outcome(flat, x), _outcome(nested, x)
        assert (expected is None) == (given is None), size
        assert expected is None or not differences(expected, given)


def test_a_submodule_called_alone_keeps_the_guards_on_its_sizes() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.shape[0] > 5 else x - 100

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branches = Branches()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.branches(x + 1)

    program = torch.export.export(Outer(), (torch.randn(8, 3),), dynamic_shapes={"x": {0: AUTO}})
    nested = unflatten(program)
    assert torch.equal(nested.branches(X.repeat(2, 1)), X.repeat(2, 1) * 2)
    with pytest.raises(ValueError, match="branches"):
        nested.branches(X)


def test_numbers_that_vary() -> None:
    class Number(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x.repeat(n, 1) * n

    program = torch.export.export(Number(), (X, 3), dynamic_shapes={"x": None, "n": Dim.DYNAMIC})
    nested = unflatten(program)
    for n in (2, 3, 7):
        assert torch.equal(nested(X, n), Number()(X, n))


def test_checks_can_be_turned_off() -> None:
    nested = unflatten(capture(nn.Linear(3, 3), (X,)), check_inputs=False)
    assert nested(X[:2]).shape == (2, 3)


def test_sizes_of_siblings_are_computed_where_they_are_needed() -> None:
    class Part(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.cumsum(0) * (x.shape[0] - 1)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = Part(), Part()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.right(self.left(x) + x)

    program = torch.export.export(Outer(), (X,), dynamic_shapes={"x": {0: AUTO}})
    nested = unflatten(program)
    for size in (3, 4, 9):
        x = torch.randn(size, 3)
        assert torch.equal(nested(x), Outer()(x))
        assert torch.equal(nested.left(x), Part()(x))
        assert torch.equal(nested.right(x), Part()(x))


def test_sizes_that_depend_on_data_cross_modules() -> None:
    class Find(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, float]:
            n = x.sum().to(torch.int64).item()
            torch._check(n >= 0)
            torch._check(n <= 100)
            return (x > 0).nonzero().squeeze(1), n

    class Fill(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self, i: torch.Tensor, n: int) -> torch.Tensor:
            return self.w.expand(i.shape[0], 3).sum() * torch.ones(n)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.find, self.f, self.g = Find(), Fill(), Fill()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            i, n = self.find(x)
            return self.f(i, n) + self.g(i + 1, n)

    model = Outer()
    nested = assert_unflattens(model, (torch.tensor([1.0, 0.0, 3.0, 2.0]),))
    assert_same_run(model, nested, (torch.tensor([0.0, 0.0, 9.0, 0.0]),))


def test_user_inputs_are_written_as_the_model_writes_them() -> None:
    class Write(nn.Module):
        def forward(self, x: torch.Tensor, y: dict[str, torch.Tensor]) -> torch.Tensor:
            x.add_(1)
            y["k"][:, 0].mul_(3)
            return x.sum()

    class Read(nn.Module):
        def forward(self, x: torch.Tensor, y: dict[str, torch.Tensor]) -> torch.Tensor:
            return x * y["k"]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.write, self.read = Write(), Read()

        def forward(self, x: torch.Tensor, y: dict[str, torch.Tensor]) -> torch.Tensor:
            total = self.write(x, y)
            return self.read(x, y) + total

    model: Any = Net()
    args = (X.clone(), {"k": torch.randn(4, 3)})
    assert_unflattens(model, args)
    assert_unflattens(model, args, program=capture(model, args).run_decompositions({}))
