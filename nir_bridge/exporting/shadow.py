"""A copy of a model to run, so that the model itself stays as it is."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.errors import ExportError

_FRAMES = 30
"""How many frames a level of a model takes at most, to copy or to run it."""

_DEEPEST = 1_000


@dataclass(frozen=True, slots=True)
class Shadow:
    """A copy.

    Attributes:
        model: the copy.
        originals: the original of each of its modules, by identity of the copy.
        paths: where each module of the copy is, by identity; the first of its names.
    """

    model: nn.Module
    originals: dict[int, nn.Module]
    paths: dict[int, tuple[str, ...]]


def shadow_of(model: nn.Module) -> Shadow:
    """A copy of a model, with copies of all tensors.

    Raises:
        ExportError: it can't be copied.
    """
    for path, module in walk(model):
        if any(isinstance(tensor, nn.UninitializedParameter) for tensor in module._parameters.values()):
            raise ExportError(f"module {'.'.join(path)!r} has parameters without values; run the model once first")
        if isinstance(module, torch.jit.ScriptModule):
            where = f"module {'.'.join(path)!r}" if path else "the model"
            raise ExportError(
                f"{where} is scripted, so that its calls can't be seen; give the module that it was made of"
            )
    memo: dict[int, Any] = {}
    for tensor in _held(model):
        if not tensor.is_leaf:  # the copy of a state that has a history
            memo[id(tensor)] = tensor.detach().clone()
    try:
        copied = _copied(model, memo)
    except RecursionError:
        raise
    except Exception as error:  # whatever a module's own attributes raise
        raise ExportError(
            f"the model can't be copied, and to_nir runs a copy, to leave the model as it is: "
            f"{type(error).__name__}: {error}. Take out what can't be copied, or give the class a __deepcopy__"
        ) from error
    originals = {id(memo[id(module)]): module for module in model.modules() if id(module) in memo}
    for module in list(copied.modules()):  # modules that torch.compile wraps, as themselves
        module._modules.update(
            {name: uncompiled(child) for name, child in module._modules.items() if child is not None}
        )
    originals[id(copied)] = model
    paths: dict[int, tuple[str, ...]] = {}
    for path, module in walk(copied):
        paths.setdefault(id(module), path)
    return Shadow(copied, originals, paths)


def uncompiled(model: nn.Module) -> nn.Module:
    """What `torch.compile` wraps, if it does."""
    while not isinstance(model, torch.jit.ScriptModule) and "_orig_mod" in model._modules:
        held = model._modules["_orig_mod"]
        if held is None:
            break
        model = held
    return model


@contextlib.contextmanager
def deep_enough(model: nn.Module) -> Iterator[None]:
    """Room on the stack for a model that is nested deeply: to copy and to run it takes many frames a level."""
    depth = max(len(path) for path, _ in walk(model))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, min(depth, _DEEPEST) * _FRAMES + before))
    try:
        yield
    except RecursionError as error:
        raise ExportError(
            f"the model is nested {depth} deep, or calls itself without an end; there is no room for that on the "
            "stack. Nest it less, or call sys.setrecursionlimit"
        ) from error
    finally:
        sys.setrecursionlimit(before)


def _copied(model: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """A deep copy; where a class's own way to copy fails, as that of Sinabs' recurrent layers does, the plain one."""
    held = dict(memo)
    try:
        return copy.deepcopy(model, memo)
    except RecursionError:
        raise
    except Exception:
        own = [module for module in model.modules() if hasattr(type(module), "__deepcopy__")]
        if not own:
            raise
        memo.clear()
        memo.update(held)
        for module in reversed(own):
            made = memo[id(module)] = type(module).__new__(type(module))
            made.__dict__.update(copy.deepcopy(module.__dict__, memo))
        return copy.deepcopy(model, memo)


def walk(model: nn.Module) -> Iterator[tuple[tuple[str, ...], nn.Module]]:
    """Every module under each of its names, whatever characters they hold, without going in circles."""
    pending: list[tuple[tuple[str, ...], nn.Module, frozenset[int]]] = [((), model, frozenset())]
    while pending:
        path, module, above = pending.pop()
        yield path, module
        inner = above | {id(module)}
        children = [(name, uncompiled(child)) for name, child in module._modules.items() if child is not None]
        pending += [((*path, name), child, inner) for name, child in reversed(children) if id(child) not in inner]


def _held(model: nn.Module) -> Iterator[Tensor]:
    """The tensors that modules hold in buffers and plain attributes, or in containers there."""
    for module in model.modules():
        for value in module.__dict__.values():
            inner = (
                value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
            )
            for item in inner:
                yield from (item for item in (item if isinstance(item, tuple) else (item,)) if isinstance(item, Tensor))


def devices(model: nn.Module) -> list[torch.device]:
    """The accelerators that a model is on, each once."""
    found = {tensor.device for tensor in (*model.parameters(), *model.buffers())}
    return sorted((device for device in found if device.type == "cuda"), key=str)
