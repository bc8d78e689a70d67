"""`LI`: tau dv/dt = (v_leak - v) + r x. `LIF`: the same with a threshold, and a reset to `v_reset`. tau in seconds."""

from __future__ import annotations

from torch import Tensor

from nir_bridge.primitives.events import leak, leak_and_fire
from nir_bridge.primitives.neuron import Coefficients, Neuron, Values
from nir_bridge.primitives.steps import decay_of, fire, gain_of, offset_of, unless_one


class LI(Neuron):
    """A leaky integrator; gives `v`."""

    constants: tuple[str, ...] = ("tau", "r", "v_leak")
    time_constants = ("tau",)
    tau: Tensor
    r: Tensor
    v_leak: Tensor

    def computed(self, known: bool) -> Coefficients:
        """The decay, the gain, and what the leak adds."""
        decay = decay_of(self.tau, self.dynamics)
        gain = gain_of(self.dynamics.input_gain, self.tau, self.r, self.dynamics.dt)
        return decay, unless_one(gain, known), offset_of(decay, self.v_leak, known)

    def drive(self, x: Tensor, coefficients: Coefficients) -> Tensor:
        """What is added to the decayed potential; for events, where the potential is going."""
        if self.dynamics.integration == "event":
            return self.v_leak + self.r * x
        _, gain, offset = coefficients[:3]
        drive = x if gain is None else gain * x
        return drive if offset is None else drive + offset

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        if self.dynamics.integration == "event":
            v = leak(values[0], drive, self.tau, self.dynamics.dt)
        else:
            v = coefficients[0] * values[0] + drive
        return v, (v,)


class LIF(LI):
    """A leaky integrator that spikes."""

    constants: tuple[str, ...] = ("tau", "r", "v_leak", "v_threshold", "v_reset")
    spiking = True
    v_threshold: Tensor
    v_reset: Tensor

    def computed(self, known: bool) -> Coefficients:
        """The coefficients of a leaky integrator, threshold and reset."""
        return (*super().computed(known), self.v_threshold, self.v_reset)

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        before, queue = values[0], values[1:]
        decay, _, _, threshold, v_reset = coefficients
        if self.dynamics.integration == "event":
            constants = self.tau, threshold, v_reset
            y, v = leak_and_fire(before, drive, constants, self.dynamics, self.slope)
            return self.lagged(y, v, queue)
        v = decay * before + drive
        if queue and self.reset == "subtract":  # spyx: the reset comes with the spike, after the decay
            v = v - queue[-1] * threshold
            return self.lagged(fire(v, threshold, self.test, self.slope)[0], v, queue)
        return self.fire(before, v, threshold, v_reset, queue)
