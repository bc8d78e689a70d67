"""`Threshold`: 1 where the input is above the threshold, else 0."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from nir_bridge.fields import Fields, Shape, Target, hold_constants
from nir_bridge.primitives.base import Primitive, elementwise, field_shape
from nir_bridge.primitives.steps import fire


class Threshold(nn.Module):
    """A step function with a surrogate gradient."""

    threshold: Tensor

    def __init__(self, fields: Fields, target: Target) -> None:
        super().__init__()
        hold_constants(self, {"threshold": fields.finite("threshold")}, target)
        self.dynamics = target.dynamics
        self.slope = target.slope

    def forward(self, x: Tensor) -> Tensor:
        """The spikes."""
        return fire(x, self.threshold, replace(self.dynamics, multi_spike=False), self.slope)[0]

    def extra_repr(self) -> str:
        """The shape of the thresholds."""
        return f"{tuple(self.threshold.shape)}"


def _make(fields: Fields, _: Shape | None, target: Target) -> nn.Module:
    return Threshold(fields, target)


THRESHOLD = Primitive(
    lambda fields: field_shape(fields, "threshold"),
    lambda fields, given: elementwise(fields, "threshold", given),
    _make,
)
