"""`I`: dv/dt = r x. `IF`: the same with a threshold, and a reset to `v_reset`.

Published files mean `r` per step; `if_gain="r*dt"` takes it per second.
"""

from __future__ import annotations

from torch import Tensor

from nir_bridge.primitives.events import integrate_and_fire
from nir_bridge.primitives.neuron import Coefficients, Neuron, Values
from nir_bridge.primitives.steps import unless_one


class I(Neuron):  # noqa: E742
    """`v += r x`; gives `v`."""

    constants: tuple[str, ...] = ("r",)

    r: Tensor

    def computed(self, known: bool) -> Coefficients:
        """What an input counts for."""
        gain = self.r if self.dynamics.if_gain == "r" else self.dynamics.dt * self.r
        return (unless_one(gain, known),)

    def drive(self, x: Tensor, coefficients: Coefficients) -> Tensor:
        """What is added."""
        gain: Tensor | None = coefficients[0]
        return x if gain is None else gain * x

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:  # noqa: ARG002
        """One step."""
        v = values[0] + drive
        return v, (v,)

    def rest(self) -> Tensor | None:
        """An integrator has no leak to rest at."""
        return None


class IF(I):
    """`v += r x`; gives spikes."""

    constants = ("r", "v_threshold", "v_reset")
    spiking = True
    v_threshold: Tensor
    v_reset: Tensor

    def computed(self, known: bool) -> Coefficients:
        """What an input counts for, threshold and reset."""
        return (*super().computed(known), self.v_threshold, self.v_reset)

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        v, queue = values[0], values[1:]
        _, threshold, v_reset = coefficients
        if self.dynamics.integration == "event":
            y, v = integrate_and_fire(v, drive, (threshold, v_reset), self.dynamics, self.slope)
            return self.lagged(y, v, queue)
        return self.fire(v, v + drive, threshold, v_reset, queue)

    def rest(self) -> Tensor | None:
        """What a reset leaves."""
        return self.v_reset
