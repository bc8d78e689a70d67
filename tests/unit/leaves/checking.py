"""One module in a small model, exported and unflattened."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.support.comparing import assert_same_run, assert_same_state
from unflatten import UnflattenedModule, unflatten

Call = Callable[..., Any]


def _plain(module: nn.Module, *args: Any) -> Any:
    return module(*args)


class Around(nn.Module):
    """A model with one module in it, whose inputs in floating point are computed."""

    def __init__(self, inner: nn.Module, call: Call) -> None:
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, *args: torch.Tensor) -> Any:
        return self.call(self.inner, *(value * 1 if value.is_floating_point() else value for value in args))


def restored(model: nn.Module, args: tuple[Any, ...], dynamic: bool = False) -> UnflattenedModule:
    """The model, exported and unflattened; with a dynamic first dimension of every input if wanted."""
    shapes = {"args": tuple({0: torch.export.Dim.DYNAMIC} for _ in args)} if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what export has to say of some modules of torch.nn
        program = torch.export.export(copy.deepcopy(model), args, dynamic_shapes=shapes)
    return unflatten(program)


def assert_comes_back(
    inner: nn.Module, args: tuple[Any, ...], call: Call = _plain, *, train: bool = True, dynamic: bool = True
) -> UnflattenedModule:
    """The module comes back as what it was, and the model computes the same, bit for bit."""
    model = Around(inner, call).train(train)
    nested = restored(model, args)
    for found in (nested, restored(model, args, dynamic=True)) if dynamic else (nested,):
        assert type(found.inner) is type(inner)
        assert found.inner.extra_repr() == inner.extra_repr()
        assert [type(module) for module in found.inner.modules()] == [type(module) for module in inner.modules()]
        assert_same_state(model, found)
        assert_same_run(copy.deepcopy(model), found, args)
    return nested
