"""Scripts that show a failure again: generated models as their source, all else as files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from unflatten.testing.dags.dag import SOURCE


def script(assertion: str, things: Mapping[str, Any]) -> str:
    """Python that makes the things, and says the assertion of them.

    Args:
        assertion: the name of the function of `unflatten.testing`.
        things: its arguments; what can't be written as code is saved in a directory of its own.

    Example:
        >>> print(script("assert_same_state", {"expected": 1, "given": 2}))
        import torch
        from unflatten.testing import assert_same_state
        <BLANKLINE>
        expected = 1
        given = 2
        assert_same_state(expected=expected, given=given)
    """
    folder: list[Path] = []
    lines = ["import torch", f"from unflatten.testing import {assertion}", ""]
    for name, value in things.items():
        lines += _made(name, value, folder)
    return "\n".join([*lines, f"{assertion}({', '.join(f'{name}={name}' for name in things)})"])


def _made(name: str, value: Any, folder: list[Path]) -> Iterator[str]:
    """Code that makes a value."""
    source = getattr(type(value), SOURCE, None)
    if source is not None:
        yield f"{source}\n{name} = build()"
    elif _is_code(value):
        yield f"{name} = {value!r}"
    else:
        yield _loaded(name, value, folder)


def _is_code(value: Any) -> bool:
    """Whether the representation of a value is code that makes it."""
    if type(value) in (tuple, list):
        return all(map(_is_code, value))
    if type(value) is dict:
        return all(map(_is_code, (*value, *value.values())))
    return value is None or type(value) in (bool, int, str, float)


def _loaded(name: str, value: Any, folder: list[Path]) -> str:
    """Saves a value, and gives the code that loads it."""
    if not folder:
        folder.append(Path(tempfile.mkdtemp(prefix="unflatten-")))
    file = folder[0] / f"{name}.{'pt2' if isinstance(value, ExportedProgram) else 'pt'}"
    try:
        if isinstance(value, ExportedProgram):
            torch.export.save(value, file)
            return f"{name} = torch.export.load({str(file)!r})"
        torch.save(value, file)
    except Exception as error:  # noqa: BLE001  # whatever can't be saved, the failure is still to be told
        kind = "nn.Module" if isinstance(value, nn.Module) else type(value).__name__
        return f"{name} = ...  # a {kind} that can't be saved: {type(error).__name__}"
    return f"{name} = torch.load({str(file)!r}, weights_only=False)"
