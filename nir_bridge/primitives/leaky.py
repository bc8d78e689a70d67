"""`LI`: tau dv/dt = (v_leak - v) + r x. `LIF`: the same with a threshold, and a reset to `v_reset`. tau in seconds."""

from __future__ import annotations

from torch import Tensor

from nir_bridge.primitives.events import leak, leak_and_fire
from nir_bridge.primitives.neuron import Coefficients, Neuron, Values
from nir_bridge.primitives.steps import decay_of, gain_of, offset_of, scaled, shifted


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
        return decay, gain, offset_of(decay, self.v_leak, known)

    def drive(self, x: Tensor, coefficients: Coefficients) -> Tensor:
        """What is added to the decayed potential; for events, where the potential is going."""
        if self.dynamics.integration == "event":
            return self.v_leak + self.r * x
        return shifted(scaled(x, coefficients[1]), coefficients[2])

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
        return (*super().computed(known), (self.v_threshold, self.v_reset))

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        before, queue, levels = values[0], values[1:], coefficients[3]
        dynamics = self.dynamics
        if dynamics.integration == "event":
            y, v = leak_and_fire(before, drive, (self.tau, *levels), dynamics, self.slope)
            y, queue = self.lagged(y, queue)
            return y, (v, *queue)
        v = coefficients[0] * before + drive
        if dynamics.reset == "snntorch_subtract":
            return self.fire_in_two_stages(before, v, levels[0], queue)
        late = bool(queue) and dynamics.reset == "subtract"  # spyx: the reset comes with the spike, after the decay
        return self.fire(v - queue[-1] * levels[0] if late else v, levels, queue, late)
