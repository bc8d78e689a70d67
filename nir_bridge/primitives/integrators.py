"""`I`: dv/dt = r x. `IF`: the same with a threshold, and a reset to `v_reset`.

Published files mean `r` per step; `if_gain="r*dt"` takes it per second.
"""

from __future__ import annotations

from torch import Tensor

from nir_bridge.primitives.events import integrate_and_fire
from nir_bridge.primitives.neuron import Coefficients, Neuron
from nir_bridge.primitives.steps import Advance, Drive, Values, affine, firing, unless_one


class I(Neuron):  # noqa: E742
    """`v += r x`; gives `v`."""

    constants: tuple[str, ...] = ("r",)

    r: Tensor

    def coefficients(self, known: bool) -> Coefficients:
        """What an input counts for."""
        gain = self.r if self.dynamics.if_gain == "r" else self.dynamics.dt * self.r
        return (unless_one(gain, known),)

    def driving(self, coefficients: Coefficients) -> Drive:
        """What is added."""
        return affine(coefficients[0])

    def advancing(self, _: Coefficients) -> Advance:
        """The sum."""

        def advance(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            v = values[0] + drive
            return v, (v,)

        return advance

    def rest(self) -> Tensor | None:
        """An integrator has no leak to rest at."""
        return None


class IF(I):
    """`v += r x`; gives spikes."""

    constants = ("r", "v_threshold", "v_reset")
    spiking = True
    v_threshold: Tensor
    v_reset: Tensor

    def advancing(self, _: Coefficients) -> Advance:
        """The sum, and spikes."""
        dynamics, slope, levels = self.dynamics, self.slope, (self.v_threshold, self.v_reset)
        fire = firing(dynamics, *levels, slope)

        def events(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            y, v = integrate_and_fire(values[0], drive, levels, dynamics, slope)
            return y, (v,)

        def advance(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            (before,) = values
            y, v = fire(before, before + drive)
            return y, (v,)

        return self.lagging(events if dynamics.integration == "event" else advance)

    def rest(self) -> Tensor | None:
        """What a reset leaves."""
        return self.v_reset
