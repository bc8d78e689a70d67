"""`LI`: tau dv/dt = (v_leak - v) + r x. `LIF`: the same with a threshold, and a reset to `v_reset`. tau in seconds."""

from __future__ import annotations

from torch import Tensor

from nir_bridge.primitives.events import leak, leak_and_fire
from nir_bridge.primitives.neuron import Coefficients, Neuron, Values
from nir_bridge.primitives.steps import decay_of, gain_of, scaled


class LI(Neuron):
    """A leaky integrator; gives `v`."""

    constants = ("tau", "r", "v_leak")
    time_constants = ("tau",)

    def coefficients(self) -> Coefficients:
        """The decay, the gain, and what the leak adds."""
        decay = decay_of(self.tau, self.dynamics)
        return decay, gain_of(self.dynamics.input_gain, self.tau, self.r, self.dynamics.dt), (1 - decay) * self.v_leak

    def drive(self, x: Tensor, coefficients: Coefficients) -> Tensor:
        """What is added to the decayed potential; for events, where the potential is going."""
        if self.dynamics.integration == "event":
            goal: Tensor = self.v_leak + self.r * x
            return goal
        _, gain, offset = coefficients
        drive: Tensor = scaled(x, gain) + offset
        return drive

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        if self.dynamics.integration == "event":
            v = leak(values[0], drive, self.tau, self.dynamics.dt)
        else:
            v = coefficients[0] * values[0] + drive
        return v, (v,)


class LIF(LI):
    """A leaky integrator that spikes."""

    constants = ("tau", "r", "v_leak", "v_threshold", "v_reset")
    spiking = True

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        before, *rest = values
        queue = tuple(rest)
        dynamics = self.dynamics
        if dynamics.integration == "event":
            constants = (self.tau, self.v_threshold, self.v_reset)
            y, v = leak_and_fire(before, drive, constants, dynamics, self.slope)
            y, queue = self.lagged(y, queue)
            return y, (v, *queue)
        v = coefficients[0] * before + drive
        if dynamics.reset == "snntorch_subtract":
            return self.fire_in_two_stages(before, v, queue)
        late = bool(queue) and dynamics.reset == "subtract"  # spyx: the reset comes with the spike, after the decay
        return self.fire(v - queue[-1] * self.v_threshold if late else v, queue, late)
