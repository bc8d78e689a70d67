"""The calls that a model makes of its modules, and a result's modules called and replaced in the same way."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tests.support.comparing import assert_same_values, run


@dataclass(frozen=True)
class Call:
    """One call of one module, its arguments as they were before it."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


def calls_of(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> list[Call]:
    """Every call that a model makes of its modules, in the order in which they end."""
    calls: list[Call] = []
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    hooks = []
    for name, module in model.named_modules():
        if name:
            hooks += [
                module.register_forward_pre_hook(
                    lambda _, args, kwargs: given.append(_copied((args, kwargs))), with_kwargs=True, prepend=True
                ),
                module.register_forward_hook(
                    lambda _, __, result, name=name: calls.append(Call(name, *given.pop(), _copied(result)))
                ),
            ]
    run(model, args, kwargs or {})
    for hook in hooks:
        hook.remove()
    return calls


def _copied(value: Any) -> Any:
    """Copies of the tensors in a value; what is no tensor stays the very object."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(map(_copied, value))
    return {key: _copied(item) for key, item in value.items()} if type(value) is dict else value


def assert_calls_alike(model: nn.Module, nested: nn.Module, args: tuple[Any, ...]) -> None:
    """Each module of the result takes the original's calls, and the original in its place gets these very calls.

    Modules that draw random numbers, or count their calls, are only compared within the whole.
    """
    calls = calls_of(copy.deepcopy(model), args)
    for call in calls:
        alone = copy.deepcopy(nested)
        assert_same_values(call.result, alone.get_submodule(call.name)(*call.args, **call.kwargs), call.name)
    for name in dict.fromkeys(call.name for call in calls):
        twin, swapped = copy.deepcopy(model), copy.deepcopy(nested)
        for path, module in twin.named_modules(remove_duplicate=False):
            if module is twin.get_submodule(name):
                owner, _, last = path.rpartition(".")
                swapped.get_submodule(owner)._modules[last] = module
        again = [call for call in calls_of(swapped, args) if call.name == name]
        expected = [call for call in calls if call.name == name]
        assert len(again) == len(expected), f"{name} is called {len(again)} times instead of {len(expected)}"
        for have, want in zip(again, expected, strict=True):
            assert_same_values((want.args, want.kwargs, want.result), (have.args, have.kwargs, have.result), name)
