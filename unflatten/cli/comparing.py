"""Running a flat program and its nested form on the same arguments, and what comes out differently."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unflatten import _torch
from unflatten.cli.inputs import Arguments

if TYPE_CHECKING:
    from torch import nn

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave.

    Attributes:
        outputs: the results, leaf by leaf.
        arguments: the arguments afterwards, which a program may write.
        state: parameters and buffers afterwards.
        hidden: buffers that are not in the state dict.
        gradients: of parameters and arguments; None where there are none.
        reason: why there are none.
    """

    outputs: Values
    arguments: Values
    state: Values
    hidden: Values
    gradients: Values | None
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """How two outcomes compare in one respect.

    Attributes:
        name: the respect.
        count: how many values were compared.
        different: the names of those that differ.
        largest: the largest difference between numbers; None where it can't be told.
        note: why nothing was compared.
    """

    name: str
    count: int
    different: tuple[str, ...]
    largest: float | None
    note: str = ""


def outcome(module: nn.Module, arguments: Arguments, seed: int) -> Outcome:
    """Calls a module once, on copies, with gradients."""
    import torch

    args, kwargs = _copied(arguments)
    inputs = _leaves((args, kwargs), "argument")
    followed = {name: value for name, value in inputs.items() if _is_differentiable(value)}
    for value in followed.values():
        value.requires_grad_()
    torch.manual_seed(seed)
    try:
        result = module(*args, **kwargs)
    except RuntimeError as error:
        if not followed or "leaf" not in str(error):
            raise
        args, kwargs = _copied(arguments)  # the program writes its arguments, so that they can't have gradients
        inputs, followed = _leaves((args, kwargs), "argument"), {}
        torch.manual_seed(seed)
        result = module(*args, **kwargs)
    outputs = _leaves(result, "output")
    gradients, reason = _gradients(module, outputs, followed)
    state = dict(module.state_dict())
    hidden = {name: each for name, each in module.named_buffers() if name not in state}
    return Outcome(_detached(outputs), _detached(inputs), state, hidden, gradients, reason)


def _gradients(module: nn.Module, outputs: Values, followed: Values) -> tuple[Values | None, str]:
    import torch

    values = [value for value in outputs.values() if isinstance(value, torch.Tensor) and value.requires_grad]
    if not values:
        return None, "no output has a gradient"
    wanted = {**{name: each for name, each in module.named_parameters() if each.requires_grad}, **followed}
    total = torch.stack([value.abs().double().square().sum().cpu() for value in values]).sum()
    try:
        found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        return None, next(iter(str(error).splitlines()), "the program can't be differentiated")
    return dict(zip(wanted, found, strict=True)), ""


def compared(flat: Outcome, nested: Outcome) -> list[Part]:
    """Everything in which two outcomes could differ."""
    hidden = sorted(flat.hidden.keys() & nested.hidden.keys())  # a flat program keeps constants there too
    states = [{**each.state, **{name: each.hidden[name] for name in hidden}} for each in (flat, nested)]
    parts = [
        _part("outputs", flat.outputs, nested.outputs),
        _part("state", *states),
        _part("arguments afterwards", flat.arguments, nested.arguments),
    ]
    if flat.gradients is None and nested.gradients is None:
        gradients = Part("gradients", 0, (), None, flat.reason)
    else:
        gradients = _part("gradients", flat.gradients or {}, nested.gradients or {})
    return [parts[0], gradients, *parts[1:]]


def _part(name: str, flat: Values, nested: Values) -> Part:
    different, largest = [], 0.0
    unknown = False
    for key in dict.fromkeys((*flat, *nested)):
        if key not in flat or key not in nested:
            different.append(key)
            unknown = True
            continue
        if not _equal(flat[key], nested[key]):
            different.append(key)
            distance = _distance(flat[key], nested[key])
            unknown |= distance is None
            largest = max(largest, distance or 0.0)
    return Part(name, len(flat), tuple(different), None if unknown else largest)


def _equal(left: Any, right: Any) -> bool:
    import torch

    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right) and bool(left == right or left != left)  # noqa: PLR0124  # NaN
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    same = (left == right) | ((left != left) & (right != right))  # noqa: PLR0124  # NaN
    return bool(same.all())


def _distance(left: Any, right: Any) -> float | None:
    import torch

    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor) or left.shape != right.shape:
        return None
    kind = torch.complex128 if left.dtype.is_complex else torch.float64
    return float((left.to(kind) - right.to(kind)).abs().nan_to_num(nan=float("inf")).max())


def fastest(module: nn.Module, arguments: Arguments, times: int, step: Callable[[], None]) -> float:
    """The seconds of the fastest of some calls."""
    import torch

    best = float("inf")
    with torch.no_grad():
        for _ in range(times):
            args, kwargs = _copied(arguments)
            start = time.perf_counter()
            module(*args, **kwargs)
            best = min(best, time.perf_counter() - start)
            step()
    return best


def _copied(arguments: Arguments) -> Arguments:
    return copy.deepcopy(_torch.map_leaves(arguments, _detach))  # type: ignore[no-any-return]


def _detach(value: Any) -> Any:
    import torch

    return value.detach() if isinstance(value, torch.Tensor) else value


def _detached(values: Values) -> Values:
    return {name: _detach(value) for name, value in values.items()}


def _leaves(value: Any, name: str) -> dict[str, Any]:
    return {f"{name} {at}": leaf for at, leaf in enumerate(_torch.tree_leaves(value))}


def _is_differentiable(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
