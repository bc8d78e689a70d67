"""Comparing an unflattened program with the model that it was captured from."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from unflatten import UnflattenedModule, unflatten
from unflatten.testing import assert_same_gradients, assert_same_state, differences
from unflatten.testing import assert_same_outputs as assert_same_run
from unflatten.testing.running import Args, Kwargs, run

__all__ = [
    "Args",
    "Kwargs",
    "assert_same_gradients",
    "assert_same_run",
    "assert_same_state",
    "assert_same_values",
    "assert_unflattens",
    "buffers",
    "capture",
    "differences",
    "run",
]


def assert_same_values(expected: Any, given: Any, where: str = "output") -> None:
    """Two nested values are the same, bit for bit."""
    assert not differences(expected, given, where)


def buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    """The buffers by name."""
    return dict(module.named_buffers(remove_duplicate=False))


def capture(model: nn.Module, args: Args, kwargs: Kwargs | None = None, **options: Any) -> ExportedProgram:
    """Exports a copy of a model."""
    return torch.export.export(copy.deepcopy(model), copy.deepcopy(args), dict(kwargs or {}) or None, **options)


def assert_unflattens(
    model: nn.Module, args: Args, kwargs: Kwargs | None = None, program: ExportedProgram | None = None, **options: Any
) -> UnflattenedModule:
    """Unflattening the model's program gives its state, results, writes and hierarchy back; returns a fresh result."""
    if program is None:
        program = capture(model, args, kwargs, **options)
    nested = unflatten(program)
    assert_same_state(model, nested)
    assert_same_run(copy.deepcopy(model), nested, args, kwargs)
    return unflatten(program)
