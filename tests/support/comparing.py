"""Comparing an unflattened program with the model that it was captured from."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.export import ExportedProgram

from unflatten import UnflattenedModule, unflatten

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]


def differences(expected: Any, given: Any, where: str = "output") -> list[str]:
    """Everything in which two nested values differ, bit for bit; NaNs are alike."""
    left, left_spec = pytree.tree_flatten(expected)
    right, right_spec = pytree.tree_flatten(given)
    if left_spec != right_spec:
        return [f"{where} nests as {right_spec}, expected {left_spec}"]
    found = []
    for at, (want, have) in enumerate(zip(left, right, strict=True)):
        problem = _leaf_difference(want, have)
        if problem:
            found.append(f"{where}[{at}] {problem}")
    return found


def _leaf_difference(want: Any, have: Any) -> str:
    if isinstance(want, torch.Tensor) and isinstance(have, torch.Tensor):
        if (want.dtype, want.shape) != (have.dtype, have.shape):
            return f"is {have.dtype}{tuple(have.shape)}, expected {want.dtype}{tuple(want.shape)}"
        if want.dtype.is_floating_point and want.dtype.itemsize == 1:
            want, have = want.view(torch.uint8), have.view(torch.uint8)
        return "" if torch.equal(want.nan_to_num(7.5), have.nan_to_num(7.5)) else f"is {have}, expected {want}"
    if isinstance(want, float) and isinstance(have, float) and math.isnan(want) and math.isnan(have):
        return ""
    if type(want) is type(have) and hasattr(want, "__dict__") and not isinstance(want, type):
        return "; ".join(differences(vars(want), vars(have), type(want).__name__))
    return "" if type(want) is type(have) and want == have else f"is {have!r}, expected {want!r}"


def assert_same_values(expected: Any, given: Any, where: str = "output") -> None:
    """Two nested values are the same, bit for bit."""
    assert not differences(expected, given, where)


def run(module: nn.Module, args: Args, kwargs: Kwargs, seed: int = 0) -> tuple[Any, Any]:
    """Calls a module on copies of the arguments; the result, and the arguments afterwards."""
    given = copy.deepcopy((args, dict(kwargs)))
    torch.manual_seed(seed)
    return module(*given[0], **given[1]), given


def assert_same_run(
    model: nn.Module, other: nn.Module, args: Args, kwargs: Kwargs | None = None, times: int = 2
) -> None:
    """Both give the same results, write the same into their arguments and into their buffers, each time."""
    kwargs = kwargs or {}
    for time in range(times):
        expected, expected_args = run(model, args, kwargs)
        given, given_args = run(other, args, kwargs)
        problems = differences(expected, given)
        problems += differences(expected_args, given_args, "arguments afterwards")
        problems += differences(buffers(model), buffers(other), "buffers afterwards")
        assert not problems, f"call {time}: {problems}"


def buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    """The buffers by name."""
    return dict(module.named_buffers(remove_duplicate=False))


def assert_same_state(model: nn.Module, other: nn.Module) -> None:
    """Both have the same state dict, in the same order, the same ties, and the same modules."""
    expected, given = model.state_dict(), other.state_dict()
    assert list(given) == list(expected)
    assert not differences(dict(expected), dict(given), "state")
    assert _groups(other) == _groups(model)
    assert dict.fromkeys(buffers(other)) == dict.fromkeys(buffers(model))
    assert [name for name, _ in other.named_modules(remove_duplicate=False)] == [
        name for name, _ in model.named_modules(remove_duplicate=False)
    ]


def _groups(module: nn.Module) -> list[list[str]]:
    """The names of parameters and buffers that are one tensor."""
    names: dict[int, list[str]] = {}
    for name, tensor in (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ):
        names.setdefault(id(tensor), []).append(name)
    return sorted(group for group in names.values() if len(group) > 1)


def assert_same_gradients(
    model: nn.Module, other: nn.Module, args: Args, kwargs: Kwargs | None = None, *, rounded: bool = False
) -> None:
    """Both give the same gradients of parameters; up to rounding where autograd may add them in another order."""
    found = []
    for module in (model, other):
        module.zero_grad()
        result, _ = run(module, args, kwargs or {})
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        torch.stack([tensor.double().square().sum() for tensor in tensors]).sum().backward()
        found.append({name: parameter.grad for name, parameter in module.named_parameters(remove_duplicate=False)})
    if rounded:
        torch.testing.assert_close(found[1], found[0])
    else:
        assert not differences(found[0], found[1], "gradients")


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
