"""A copy of a model to run, so that the model itself stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.errors import ExportError


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
    memo: dict[int, Any] = {}
    for tensor in _held(model):
        if not tensor.is_leaf:  # the copy of a state that has a history
            memo[id(tensor)] = tensor.detach().clone()
    try:
        copied = copy.deepcopy(model, memo)
    except Exception as error:  # whatever a module's own attributes raise
        raise ExportError(
            f"the model can't be copied, and to_nir runs a copy, to leave the model as it is: "
            f"{type(error).__name__}: {error}. Take out what can't be copied, or give the class a __deepcopy__"
        ) from error
    originals = {id(memo[id(module)]): module for module in model.modules() if id(module) in memo}
    originals[id(copied)] = model
    paths: dict[int, tuple[str, ...]] = {}
    for path, module in walk(copied):
        paths.setdefault(id(module), path)
    return Shadow(copied, originals, paths)


def walk(model: nn.Module) -> Iterator[tuple[tuple[str, ...], nn.Module]]:
    """Every module under each of its names, whatever characters they hold, without going in circles."""
    pending: list[tuple[tuple[str, ...], nn.Module, frozenset[int]]] = [((), model, frozenset())]
    while pending:
        path, module, above = pending.pop()
        yield path, module
        inner = above | {id(module)}
        children = [(name, child) for name, child in module._modules.items() if child is not None]
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
