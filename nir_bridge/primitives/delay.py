"""`Delay`: y(t) = x(t - delay), every element with a delay of its own, in seconds, rounded to whole steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nir_bridge.fields import Fields, Shape, Target
from nir_bridge.primitives.base import Primitive, elementwise, field_shape
from nir_bridge.state import State

_MOST = 2**28
"""How many values a delay may hold back for one element of a batch."""


class Delay(nn.Module):
    """Holds inputs back. The state is what came in lately, the newest first."""

    steps: Tensor

    def __init__(self, steps: Tensor, longest: int, delay: NDArray[Any], shape: Shape, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("steps", steps)
        self.delay = delay
        self.longest = longest
        self.shape = shape
        self.dtype = dtype

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One step.

        Args:
            x: the input, with any leading batch axes.
            state: what the last step returned; None for the start.

        Returns:
            The output and the new state.
        """
        if state is None:
            state = self.initial_state(x.shape[: x.dim() - len(self.shape)], x)
        axis = x.dim() - len(self.shape)
        past = torch.cat([x.unsqueeze(axis), state["past"]], axis)
        y = past.gather(axis, self.steps.expand(x.shape).unsqueeze(axis)).squeeze(axis)
        return y, State(past=past.narrow(axis, 0, self.longest))

    def initial_state(self, batch_shape: Sequence[int] = (), like: Tensor | None = None) -> State:
        """Silence."""
        dtype = self.dtype if like is None else like.dtype
        shape = (*batch_shape, self.longest, *self.shape)
        return State(past=torch.zeros(shape, dtype=dtype, device=self.steps.device))

    def _apply(self, fn: object, recurse: bool = True) -> Delay:
        """Follows casts of the module, though it has no parameter."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if callable(fn):
            self.dtype = fn(torch.empty(0, dtype=self.dtype, device=self.steps.device)).dtype
        return self

    def extra_repr(self) -> str:
        """The shape, and the longest delay."""
        return f"{self.shape}, longest={self.longest} steps"


def _make(fields: Fields, given: Shape | None, target: Target) -> nn.Module:
    delay = fields.finite("delay").astype(np.float64)
    if (delay < 0).any() or not np.isfinite(delay).all():
        raise fields.error("delay", "holds negative or infinite times; a delay is a time in seconds, 0 or more")
    shape = given or field_shape(fields, "delay") or ()
    steps = np.floor(delay / target.dynamics.dt + 0.5)
    most = _MOST // max(math.prod(shape), 1)
    if (steps > most).any():
        raise fields.error(
            "delay",
            f"is {delay.max()} s somewhere, {steps.max():.3g} steps of {target.dynamics.dt} s; for the shape {shape} "
            f"there is room for {most} steps. Shorten it, or take longer steps",
        )
    steps = steps.astype(np.int64)
    longest = int(steps.max(initial=0))
    held = torch.from_numpy(np.array(steps))
    device = target.device
    return Delay(
        torch.empty_like(held, device=device) if device.type == "meta" else held.to(device),
        longest,
        fields.finite("delay"),
        shape,
        target.dtype,
    )


DELAY = Primitive(
    lambda fields: field_shape(fields, "delay"), lambda fields, given: elementwise(fields, "delay", given), _make
)
