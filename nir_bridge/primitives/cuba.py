"""`CubaLI` and `CubaLIF`: a leaky integrator behind a synapse. Time constants in seconds.

tau_syn dI/dt = -I + w_in x, tau_mem dv/dt = (v_leak - v) + r I.
"""

from __future__ import annotations

from torch import Tensor

from nir_bridge.primitives.events import current_and_fire, synapse
from nir_bridge.primitives.neuron import Coefficients, Neuron, Values
from nir_bridge.primitives.steps import decay_of, gain_of, offset_of, scaled, shifted


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
        decay = decay_of(self.tau_mem, rules)
        return (
            decay_of(self.tau_syn, rules),
            gain_of(rules.synapse_gain, self.tau_syn, self.w_in, rules.dt),
            decay,
            gain_of(rules.input_gain, self.tau_mem, self.r, rules.dt),
            offset_of(decay, self.v_leak, known),
        )

    def drive(self, x: Tensor, coefficients: Coefficients) -> Tensor:
        """What is added to the current; for events, where the current is going."""
        if self.dynamics.integration == "event":
            return self.w_in * x
        return scaled(x, coefficients[1])

    def currents(self, drive: Tensor, i: Tensor, coefficients: Coefficients) -> tuple[Tensor, Tensor]:
        """The new current, and the one that drives the potential."""
        decay: Tensor = coefficients[0]
        new = decay * (i + drive) if self.dynamics.synapse == "decay_all" else decay * i + drive
        return new, i if self.dynamics.synapse == "old" else new

    def potential(self, current: Tensor, v: Tensor, coefficients: Coefficients) -> Tensor:
        """The new potential, before any spike."""
        decay: Tensor = coefficients[2]
        return decay * v + shifted(scaled(current, coefficients[3]), coefficients[4])

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        i, v = values
        if self.dynamics.integration == "event":
            i, v = synapse(i, v, drive, self.event_constants(), self.dynamics.dt)
            return v, (i, v)
        i, current = self.currents(drive, i, coefficients)
        v = self.potential(current, v, coefficients)
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
        return (*super().computed(known), (self.v_threshold, self.v_reset))

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        i, before, queue, levels = values[0], values[1], values[2:], coefficients[5]
        if self.dynamics.integration == "event":
            y, i, v = current_and_fire((i, before), drive, self.event_constants(), levels, (self.dynamics, self.slope))
            y, queue = self.lagged(y, queue)
            return y, (i, v, *queue)
        i, current = self.currents(drive, i, coefficients)
        v = self.potential(current, before, coefficients)
        if self.dynamics.reset == "snntorch_subtract":
            y, after = self.fire_in_two_stages(before, v, levels[0], queue)
        else:
            y, after = self.fire(v, levels, queue)
        return y, (i, *after)
