"""What the properties share."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
from hypothesis import reject
from torch import nn
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram

from unflatten import UnflattenedModule, info
from unflatten._torch import map_leaves
from unflatten.testing import ModuleDag
from unflatten.testing.comparing import differences
from unflatten.testing.running import run


def functional(dag: ModuleDag, *, record: bool = False) -> ExportedProgram:
    """A model's program without mutation, where torch 2.13 makes one that computes what the model does.

    It refuses some in which a written buffer has two names, and takes what dropout gives in eval mode for a copy.
    """
    try:
        program = dag.export(record=record).run_decompositions({})
    except AssertionError:
        reject()
    want, have = (run(module, dag.args, dag.kwargs) for module in (dag.model(), copy.deepcopy(program.module())))
    if differences(want, have):
        reject()
    return program


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
