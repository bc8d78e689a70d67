"""What the properties share."""

from __future__ import annotations

import io
from typing import Any

import torch
from hypothesis import reject
from torch import nn
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram

from unflatten import UnflattenedModule, info
from unflatten._torch import map_leaves


def functional(program: ExportedProgram) -> ExportedProgram:
    """The program without mutation; torch 2.13 refuses some in which a written buffer has two names."""
    try:
        return program.run_decompositions({})
    except AssertionError:
        reject()


def saved(program: ExportedProgram) -> ExportedProgram:
    """The program from a file; torch 2.13 writes blocks without results that it doesn't read."""
    file = io.BytesIO()
    torch.export.save(program, file)
    try:
        return torch.export.load(io.BytesIO(file.getvalue()))
    except SpecViolationError:
        reject()


def codes(module: nn.Module) -> dict[str, str]:
    """The code of every module that has generated code."""
    return {name: info(inner).code for name, inner in module.named_modules() if isinstance(inner, UnflattenedModule)}


def paths(module: nn.Module) -> list[str]:
    """The modules that have generated code, those at several names once."""
    return [name for name, inner in module.named_modules() if name and isinstance(inner, UnflattenedModule)]


def resized(value: Any, rows: int) -> Any:
    """Arguments with another number of rows."""
    return map_leaves(value, lambda leaf: leaf.repeat(rows, 1)[:rows] if isinstance(leaf, torch.Tensor) else leaf)
