"""`CubaLI` and `CubaLIF`: a leaky integrator behind a synapse. Time constants in seconds.

tau_syn dI/dt = -I + w_in x, tau_mem dv/dt = (v_leak - v) + r I.
"""

from __future__ import annotations

from torch import Tensor

from nir_bridge.primitives.events import current_and_fire, synapse
from nir_bridge.primitives.neuron import Coefficients, Neuron, Values
from nir_bridge.primitives.steps import decay_of, gain_of, offset_of, unless_one


class CubaLI(Neuron):
    """A current-based leaky integrator; gives `v`."""

    own = ("i", "v")
    constants: tuple[str, ...] = ("tau_syn", "tau_mem", "r", "v_leak", "w_in")
    time_constants = ("tau_syn", "tau_mem")
    tau_syn: Tensor
    tau_mem: Tensor
    r: Tensor
    v_leak: Tensor
    w_in: Tensor

    def computed(self, known: bool) -> Coefficients:
        """Decay and gain of the current, decay and gain of the potential, and what the leak adds."""
        rules = self.dynamics
        decay_i = decay_of(self.tau_syn, rules)
        gain_i = gain_of(rules.synapse_gain, self.tau_syn, self.w_in, rules.dt)
        decay = decay_of(self.tau_mem, rules)
        gain = gain_of(rules.input_gain, self.tau_mem, self.r, rules.dt)
        offset = offset_of(decay, self.v_leak, known)
        return decay_i, unless_one(gain_i, known), decay, unless_one(gain, known), offset

    def drive(self, x: Tensor, coefficients: Coefficients) -> Tensor:
        """What is added to the current; for events, where the current is going."""
        if self.dynamics.integration == "event":
            return self.w_in * x
        gain: Tensor | None = coefficients[1]
        return x if gain is None else gain * x

    def charged(self, drive: Tensor, i: Tensor, v: Tensor, coefficients: Coefficients) -> tuple[Tensor, Tensor]:
        """The new current, and the new potential before any spike."""
        decay_i, _, decay, gain, offset = coefficients[:5]
        rule = self.dynamics.synapse
        new = decay_i * (i + drive) if rule == "decay_all" else decay_i * i + drive
        current = i if rule == "old" else new
        if gain is not None:
            current = gain * current
        if offset is not None:
            current = current + offset
        return new, decay * v + current

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        i, v = values
        if self.dynamics.integration == "event":
            i, v = synapse(i, v, drive, self.event_constants(), self.dynamics.dt)
        else:
            i, v = self.charged(drive, i, v, coefficients)
        return v, (i, v)

    def event_constants(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the exact solution needs."""
        return self.tau_syn, self.tau_mem, self.r, self.v_leak


class CubaLIF(CubaLI):
    """A current-based leaky integrator that spikes."""

    constants: tuple[str, ...] = ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in")
    spiking = True
    v_threshold: Tensor
    v_reset: Tensor

    def computed(self, known: bool) -> Coefficients:
        """The coefficients of a leaky integrator, threshold and reset."""
        return (*super().computed(known), self.v_threshold, self.v_reset)

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        i, before, queue = values[0], values[1], values[2:]
        threshold, v_reset = coefficients[5:]
        if self.dynamics.integration == "event":
            levels, rules = (threshold, v_reset), (self.dynamics, self.slope)
            y, i, v = current_and_fire((i, before), drive, self.event_constants(), levels, rules)
            y, after = self.lagged(y, v, queue)
        else:
            i, v = self.charged(drive, i, before, coefficients)
            y, after = self.fire(before, v, threshold, v_reset, queue)
        return y, (i, *after)
