"""Writing a model, loading it, and comparing the two."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import unflatten
from tests.support.comparing import assert_same_run, differences, run
from unflatten import source


@dataclass(frozen=True)
class Written:
    """A model that was written.

    Attributes:
        text: its `model.py`.
        model: what was loaded.
        folder: where it is.
    """

    text: str
    model: nn.Module
    folder: Path


def write(
    folder: Path,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    again: bool = True,
) -> Written:
    """Exports, writes and loads a model; results, gradients, state and formatting have to be right."""
    program = _export(model, args, kwargs, dynamic_shapes)
    target = source.write(program, folder / "net")
    loaded = source.load(target)
    text = (target / "model.py").read_text()
    assert_same_state(model, loaded)
    assert_same_run(copy.deepcopy(model), copy.deepcopy(loaded), args, kwargs)
    assert_same_gradients(unflatten.unflatten(program, copy_state=True), copy.deepcopy(loaded), args, kwargs)
    assert_canonical(target)
    if again:
        assert source.text_of(_export(loaded, args, kwargs, dynamic_shapes)) == text
    return Written(text, loaded, target)


def _export(model: nn.Module, args: Any, kwargs: Any, dynamic_shapes: Any) -> Any:
    given = copy.deepcopy((args, dict(kwargs or {})))
    return unflatten.export(copy.deepcopy(model), given[0], given[1] or None, dynamic_shapes=dynamic_shapes)


def assert_same_state(model: nn.Module, loaded: nn.Module) -> None:
    expected, given = model.state_dict(), loaded.state_dict()
    assert list(given) == list(expected)
    assert not differences(dict(expected), dict(given), "state")
    for name, tensor in expected.items():
        assert given[name].stride() == tensor.stride(), name
    frozen = {name: each.requires_grad for name, each in model.named_parameters(remove_duplicate=False)}
    assert {name: each.requires_grad for name, each in loaded.named_parameters(remove_duplicate=False)} == frozen
    assert _ties(loaded) == _ties(model)


def _ties(module: nn.Module) -> list[list[str]]:
    names: dict[int, list[str]] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    return sorted(sorted(group) for group in names.values() if len(group) > 1)


def assert_same_gradients(model: nn.Module, loaded: nn.Module, args: Any, kwargs: Any) -> None:
    found = []
    for module in (model, loaded):
        result, _ = run(module, args, kwargs or {})
        leaves = torch.utils._pytree.tree_leaves(result)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if tensors:
            torch.stack([(tensor.abs().double() ** 2).sum() for tensor in tensors]).sum().backward()
        found.append({name: each.grad for name, each in module.named_parameters(remove_duplicate=False)})
    assert not differences(found[0], found[1], "gradients")


def assert_canonical(folder: Path) -> None:
    command = str(Path(sys.executable).parent / "ruff")
    for what in (["check", "-q"], ["format", "--diff"]):
        done = subprocess.run(
            [command, *what, "--isolated", "--no-cache", str(folder)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
