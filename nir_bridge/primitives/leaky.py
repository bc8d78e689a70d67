"""`LI`: tau dv/dt = (v_leak - v) + r x. `LIF`: the same with a threshold, and a reset to `v_reset`. tau in seconds."""

from __future__ import annotations

from torch import Tensor

from nir_bridge.primitives.events import leak, leak_and_fire
from nir_bridge.primitives.neuron import Coefficients, Neuron
from nir_bridge.primitives.steps import (
    Advance,
    Drive,
    Values,
    affine,
    decay_of,
    fire,
    firing,
    gain_of,
    offset_of,
    test_of,
    unless_one,
)


class LI(Neuron):
    """A leaky integrator; gives `v`."""

    constants: tuple[str, ...] = ("tau", "r", "v_leak")
    time_constants = ("tau",)
    tau: Tensor
    r: Tensor
    v_leak: Tensor

    def coefficients(self, known: bool) -> Coefficients:
        """The decay, the gain, and what the leak adds."""
        decay = decay_of(self.tau, self.dynamics)
        gain = gain_of(self.dynamics.input_gain, self.tau, self.r, self.dynamics.dt)
        return decay, unless_one(gain, known), offset_of(decay, self.v_leak, known)

    def driving(self, coefficients: Coefficients) -> Drive:
        """What is added to the decayed potential; for events, where the potential is going."""
        if self.dynamics.integration == "event":
            return affine(self.r, self.v_leak)
        _, gain, offset = coefficients
        return affine(gain, offset)

    def advancing(self, coefficients: Coefficients) -> Advance:
        """The decay."""
        decay, tau, dt = coefficients[0], self.tau, self.dynamics.dt

        def events(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            v = leak(values[0], drive, tau, dt)
            return v, (v,)

        def advance(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            v = decay * values[0] + drive
            return v, (v,)

        return events if self.dynamics.integration == "event" else advance


class LIF(LI):
    """A leaky integrator that spikes."""

    constants: tuple[str, ...] = ("tau", "r", "v_leak", "v_threshold", "v_reset")
    spiking = True
    v_threshold: Tensor
    v_reset: Tensor

    def advancing(self, coefficients: Coefficients) -> Advance:
        """The decay, and spikes."""
        decay, dynamics, slope = coefficients[0], self.dynamics, self.slope
        constants = self.tau, self.v_threshold, self.v_reset
        fire = firing(dynamics, *constants[1:], slope)

        def events(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            y, v = leak_and_fire(values[0], drive, constants, dynamics, slope)
            return y, (v,)

        def advance(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            (before,) = values
            y, v = fire(before, decay * before + drive)
            return y, (v,)

        if dynamics.integration == "event":
            return self.lagging(events)
        if self.lag and dynamics.reset == "subtract":
            return self.resetting_late(decay)
        return self.lagging(advance)

    def resetting_late(self, decay: Tensor) -> Advance:
        """The step of spyx: the reset comes with the spike, after the decay."""
        threshold, test, slope = self.v_threshold, test_of(self.dynamics), self.slope

        def advance(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            before, *queue = values
            v = decay * before + drive - queue[-1] * threshold
            spikes, _ = fire(v, threshold, test, slope)
            return queue[0], (v, *queue[1:], spikes)

        return advance
