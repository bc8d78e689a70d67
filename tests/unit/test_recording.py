"""Calls as the author wrote them: `unflatten.export` and what `unflatten` makes of its record."""

from __future__ import annotations

import copy
import enum
import io
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

import unflatten
from tests.support.calling import assert_calls_alike
from tests.support.comparing import assert_same_run, assert_same_state, assert_same_values
from unflatten import info
from unflatten.errors import InputError, NotRecordableError, UnknownSignatureError

X = torch.linspace(-1, 2, 12).view(3, 4)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Options:
    scale: float = 2.0
    names: tuple[str, ...] = ("a", "b")


@dataclass(frozen=True)
class Batch:
    x: torch.Tensor
    mask: torch.Tensor | None
    options: Options


Pair = namedtuple("Pair", ["left", "right"])  # noqa: PYI024 - the untyped kind is what pytree knows by its class


class Holder:
    """An object that says nothing of equality."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Takes(nn.Module):
    """Takes anything, and uses the first argument and what `use` finds in the rest."""

    def __init__(self, use: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.use = use

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        out: torch.Tensor = self.fc(x)
        return out if self.use is None else out + self.use(*args, **kwargs)


class Gives(nn.Module):
    """Calls its child with what `give` makes of the input."""

    def __init__(
        self, give: Callable[[torch.Tensor], tuple[tuple[Any, ...], dict[str, Any]]], child: nn.Module
    ) -> None:
        super().__init__()
        self.give, self.child = give, child

    def forward(self, x: torch.Tensor) -> Any:
        args, kwargs = self.give(x)
        return self.child(*args, **kwargs)


CONSTANTS = {
    "none": None,
    "bool": True,
    "int": 7,
    "float": -0.0,
    "infinite": float("inf"),
    "str": "it's",
    "bytes": b"\x00\xff",
    "complex": 1 - 2j,
    "dtype": torch.bfloat16,
    "device": torch.device("cpu"),
    "layout": torch.strided,
    "memory format": torch.channels_last,
    "size": torch.Size([2, 3]),
    "slice": slice(1, None, 2),
    "ellipsis": ...,
    "range": range(1, 9, 3),
    "enum": Color.BLUE,
    "dataclass": Options(3.0, ("c",)),
    "object": Holder([1, {"k": (Color.RED, None)}]),
    "class": Options,
    "function": copy.deepcopy,
    "set": {3, 1, 2},
    "nested": [1, (2.5, {"k": None}), Pair(1, "two"), OrderedDict(b=1, a=2)],
}


def unflattened(
    model: nn.Module, args: tuple[Any, ...], program: ExportedProgram | None = None
) -> unflatten.UnflattenedModule:
    """The result of unflattening a recorded program, after comparing it and all its calls with the model."""
    nested = unflatten.unflatten(program or unflatten.export(model, args))
    assert_same_state(model, nested)
    assert_same_run(copy.deepcopy(model), copy.deepcopy(nested), args)
    assert_calls_alike(model, nested, args)
    return nested


@pytest.mark.parametrize("kind", CONSTANTS)
def test_constants_are_passed_as_they_were(kind: str) -> None:
    value = CONSTANTS[kind]
    model = Gives(lambda x: ((x, value), {"option": value}), Takes())
    nested = unflattened(model, (X,))
    with pytest.raises(InputError, match=r"captured for|nests as"):
        nested.child(X, value, option="something else")


def test_the_parent_writes_the_call_as_the_author_did() -> None:
    model = Gives(lambda x: ((x, None), {"mask": x > 0, "scale": 0.5}), Takes(lambda _, mask, scale: mask * scale))
    nested = unflattened(model, (X,))
    assert info(nested).code == "def forward(self, x):\n    return self.child(x, None, mask=x > 0, scale=0.5)"
    assert info(nested.child).code.startswith("def forward(self, x, args_0, mask, scale):")


def test_dataclasses_with_tensors_are_built_and_read_by_field() -> None:
    model = Gives(
        lambda x: ((x, Batch(x * 2, None, Options())), {}), Takes(lambda batch: batch.x * batch.options.scale)
    )
    nested = unflattened(model, (X,))
    assert "args_0.x * 2.0" in info(nested.child).code


def test_arguments_that_the_graph_does_not_use_are_passed() -> None:
    model = Gives(lambda x: ((x, torch.arange(3), x.sum()), {"shape": x.shape}), Takes())
    unflattened(model, (X,))


class Twice(nn.Module):
    """Calls one module in two ways, and one that does nothing in between."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Takes(lambda mask=None: 0 if mask is None else mask.sum())
        self.skip: nn.Module = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(self.skip(self.part(x)), mask=self.skip(x) > 0)


def test_several_calls_of_several_kinds() -> None:
    nested = unflattened(Twice(), (X,))
    assert len(info(nested.part).bodies) == 2


def test_what_replaces_a_module_that_does_nothing_takes_effect() -> None:
    model = Twice()
    nested = unflatten.unflatten(unflatten.export(model, (X,)))
    nested.skip = model.skip = nn.Tanh()
    assert_same_run(model, nested, (X,))


def test_a_module_that_hands_a_part_through_may_be_replaced_by_one_that_does_not() -> None:
    class Through(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
            return x + 1, mask, None

    class Other(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
            return x * 2, mask - 3, None

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.through: nn.Module = Through()

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            x, mask, _ = self.through(x, mask)
            return x * mask

    model = Model()
    nested = unflattened(model, (X, X.neg()))
    model.through = nested.through = Other()
    assert_same_run(model, nested, (X, X.neg()))


def test_modules_without_any_operator_are_called_in_their_place() -> None:
    class Shape(nn.Module):
        def forward(self, x: torch.Tensor) -> int:
            return x.shape[-1]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shape = Shape()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.shape(x)

    nested = unflattened(Model(), (X,))
    assert "self.shape(x)" in info(nested).code


def test_sizes_that_vary() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = Takes(lambda size, twice: torch.ones(4) * size)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.child(x, x.shape[0], twice=x.shape[0] * 2)

    model = Model()
    program = unflatten.export(model, (X,), dynamic_shapes=({0: Dim("batch", min=2)},))
    nested = unflatten.unflatten(program)
    for size in (3, 5):
        x = torch.randn(size, 4)
        assert_same_run(model, nested, (x,))
        assert_same_values(model.child(x, size, twice=2 * size), nested.child(x, size, twice=2 * size))
        swapped = copy.deepcopy(nested)
        swapped.child = model.child
        assert_same_run(model, swapped, (x,))


def saved(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize("how", [saved, copy.deepcopy], ids=["saved", "copied"])
def test_the_record_is_a_part_of_the_program(how: Callable[[ExportedProgram], ExportedProgram]) -> None:
    model = Twice()
    program = unflatten.export(model, (X,))
    nested = unflattened(model, (X,), how(program))
    assert info(nested).code == info(unflatten.unflatten(program)).code


def test_calls_survive_decomposition() -> None:
    model = Gives(lambda x: ((x, None), {"mask": x > 0, "scale": 0.5}), Takes(lambda _, mask, scale: mask * scale))
    nested = unflatten.unflatten(unflatten.export(model, (X,)).run_decompositions())
    assert "self.child(x, None, mask=x > 0, scale=0.5)" in info(nested).code.replace("gt", "x > 0")
    torch.testing.assert_close(nested(X), model(X))
    nested.child = model.child
    assert_same_run(model, nested, (X,))


def test_an_argument_that_decomposition_removed_is_refused_when_it_is_used() -> None:
    model = Gives(lambda x: ((x, torch.arange(3)), {}), Takes())
    nested = unflatten.unflatten(unflatten.export(model, (X,)).run_decompositions())
    torch.testing.assert_close(nested(X), model(X))
    nested.child = Takes(lambda positions: positions * 2)
    with pytest.raises(UnknownSignatureError, match="no longer a part of the program"):
        nested(X)


def test_the_model_is_left_as_it_is() -> None:
    model = Twice()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    unflatten.export(model, (X,))
    for name, module in model.named_modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert vars(module).keys() == before[name].keys()


def test_hooks_of_the_model_are_part_of_the_program_and_calls_are_as_before_them() -> None:
    model = Gives(lambda x: ((x,), {}), Takes())
    model.child.register_forward_pre_hook(lambda _, args: (args[0] * 3,))
    model.child.register_forward_hook(lambda _, args, out: out.neg())
    nested = unflatten.unflatten(unflatten.export(model, (X,)))
    assert info(nested).code == "def forward(self, x):\n    return self.child(x)"
    assert_same_run(model, nested, (X,))


def test_strict_export_is_refused_with_the_reason() -> None:
    with pytest.raises(NotRecordableError, match="strict=False"):
        unflatten.export(Twice(), (X,), strict=True)


def test_a_child_with_the_name_of_a_method_is_told_of() -> None:
    model = nn.Sequential()
    model._modules["double"] = nn.Linear(4, 4)
    with pytest.raises(NotRecordableError, match=r"module 'double' has the name of an attribute"):
        unflatten.export(model, (X,))


def test_a_failing_export_leaves_no_hooks() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError(f"no {self.fc(x).shape}")

    model = Fails()
    with pytest.raises(ValueError, match="no torch"):
        unflatten.export(model, (X,))
    assert not model.fc._forward_hooks


def test_shared_modules_are_told_by_the_record() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = Takes()
            self.b = self.a

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x) + self.b(x)

    nested = unflatten.unflatten(unflatten.export(Model(), (X,)))
    assert nested.a is nested.b
