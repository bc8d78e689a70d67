"""Spikes that gradients pass through: the step function's value, and a smooth function's slope."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from nir_bridge.errors import DynamicsError

Slope = Callable[[Tensor], Tensor]
"""From how far a potential is above the threshold to the slope that stands in for the step's."""


def fast_sigmoid(distance: Tensor) -> Tensor:
    """The slope of `x / (1 + 25 |x|)`."""
    return 1 / (1 + 25 * distance.abs()) ** 2


def atan(distance: Tensor) -> Tensor:
    """The slope of `atan(pi x) / pi`."""
    return 1 / (1 + (math.pi * distance) ** 2)


def triangle(distance: Tensor) -> Tensor:
    """A triangle of height and half width 1."""
    return (1 - distance.abs()).clamp(min=0)


def straight_through(distance: Tensor) -> Tensor:
    """1 everywhere."""
    return torch.ones_like(distance)


SURROGATES: Final[Mapping[str, Slope]] = {
    "fast_sigmoid": fast_sigmoid,
    "atan": atan,
    "triangle": triangle,
    "straight_through": straight_through,
}


def as_slope(given: str | Slope) -> Slope:
    """The slope that a caller asked for.

    Raises:
        DynamicsError: there is none of that name, and it can't be called.
    """
    if isinstance(given, str) and given in SURROGATES:
        return SURROGATES[given]
    if callable(given):
        return given
    raise DynamicsError(
        f"surrogate={given!r} is none of {', '.join(map(repr, SURROGATES))}, nor a function from the distance to "
        "the threshold to a slope"
    )


class _Spike(torch.autograd.Function):
    """Forwards a value that was computed, backwards with a slope that was computed."""

    generate_vmap_rule = True

    @staticmethod
    def forward(spikes: Tensor, distance: Tensor, slope: Slope) -> Tensor:  # noqa: ARG004
        return spikes.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.save_for_backward(inputs[1])
        ctx.slope = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (distance,) = ctx.saved_tensors
        return None, grad * ctx.slope(distance), None


def spike(distance: Tensor, above: Tensor, slope: Slope) -> Tensor:
    """Spikes where a potential is above its threshold.

    Args:
        distance: how far the potential is above the threshold; gradients go here.
        above: where it spikes, bool, or how often.
        slope: the slope for gradients.
    """
    spikes = above.to(distance.dtype)
    if not (torch.is_grad_enabled() and distance.requires_grad):
        return spikes
    if torch.compiler.is_compiling():  # in operators, so that exported programs have the gradient too
        line = distance * slope(distance.detach())
        return spikes + torch.nan_to_num(line - line.detach())
    passed: Tensor = _Spike.apply(spikes, distance, slope)  # type: ignore[no-untyped-call]
    return passed
