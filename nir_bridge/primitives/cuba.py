"""`CubaLI` and `CubaLIF`: a leaky integrator behind a synapse. Time constants in seconds.

tau_syn dI/dt = -I + w_in x, tau_mem dv/dt = (v_leak - v) + r I.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from nir_bridge.primitives.events import current_and_fire, synapse
from nir_bridge.primitives.neuron import Coefficients, Neuron
from nir_bridge.primitives.steps import Advance, Drive, Values, affine, decay_of, firing, gain_of, offset_of, unless_one

Charge = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From a drive, the current and the potential to the new current and potential."""


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

    def coefficients(self, known: bool) -> Coefficients:
        """Decay and gain of the current, decay and gain of the potential, and what the leak adds."""
        rules = self.dynamics
        decay_i = decay_of(self.tau_syn, rules)
        gain_i = gain_of(rules.synapse_gain, self.tau_syn, self.w_in, rules.dt)
        decay = decay_of(self.tau_mem, rules)
        gain = gain_of(rules.input_gain, self.tau_mem, self.r, rules.dt)
        offset = offset_of(decay, self.v_leak, known)
        return decay_i, unless_one(gain_i, known), decay, unless_one(gain, known), offset

    def driving(self, coefficients: Coefficients) -> Drive:
        """What is added to the current; for events, where the current is going."""
        return affine(self.w_in if self.dynamics.integration == "event" else coefficients[1])

    def charging(self, coefficients: Coefficients) -> Charge:
        """How current and potential change before any spike."""
        decay_i, _, decay, gain, offset = coefficients
        rule = self.dynamics.synapse

        def charge(drive: Tensor, i: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            new = decay_i * (i + drive) if rule == "decay_all" else decay_i * i + drive
            current = i if rule == "old" else new
            if gain is not None:
                current = gain * current
            if offset is not None:
                current = current + offset
            return new, decay * v + current

        return charge

    def advancing(self, coefficients: Coefficients) -> Advance:
        """The decay of both."""
        charge, constants, dt = self.charging(coefficients), self.event_constants(), self.dynamics.dt

        def events(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            i, v = values
            i, v = synapse(i, v, drive, constants, dt)
            return v, (i, v)

        def advance(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            i, v = charge(drive, *values)
            return v, (i, v)

        return events if self.dynamics.integration == "event" else advance

    def event_constants(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the exact solution needs."""
        return self.tau_syn, self.tau_mem, self.r, self.v_leak


class CubaLIF(CubaLI):
    """A current-based leaky integrator that spikes."""

    constants: tuple[str, ...] = ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in")
    spiking = True
    v_threshold: Tensor
    v_reset: Tensor

    def advancing(self, coefficients: Coefficients) -> Advance:
        """The decay of both, and spikes."""
        charge, constants, levels = (
            self.charging(coefficients),
            self.event_constants(),
            (self.v_threshold, self.v_reset),
        )
        rules = self.dynamics, self.slope
        fire = firing(self.dynamics, *levels, self.slope)

        def events(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            before, v = values
            y, i, v = current_and_fire((before, v), drive, constants, levels, rules)
            return y, (i, v)

        def advance(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
            i, before = values
            i, v = charge(drive, i, before)
            y, v = fire(before, v)
            return y, (i, v)

        return self.lagging(events if self.dynamics.integration == "event" else advance)
