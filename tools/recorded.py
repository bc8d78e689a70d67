"""`unflatten`, with every export in the process recorded: to run what only knows `torch.export.export` on records."""

from __future__ import annotations

from typing import Any

import torch

import unflatten as package
from unflatten.errors import NotRecordableError

_export = torch.export.export


def export(model: torch.nn.Module, args: Any, kwargs: Any = None, **options: Any) -> torch.export.ExportedProgram:
    """Exports with a record where that is possible."""
    _replace(_export)
    try:
        return package.export(model, args, kwargs, **options)
    except NotRecordableError:
        return _export(model, args, kwargs, **options)
    finally:
        _replace(export)


def _replace(function: Any) -> None:
    torch.export.export = function


_replace(export)
unflatten = package.unflatten
