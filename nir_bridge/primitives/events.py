"""Exact solutions over one step, the input held, with the time of the spike solved for inside of it.

Resets are to `v_reset`, or by the threshold, as the rules say; at the time of the spike the potential is the
threshold, so that subtracting leaves zero. Where a step can give several spikes all of them are counted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nir_bridge.dynamics import Dynamics
from nir_bridge.errors import DynamicsError
from nir_bridge.surrogate import Slope, spike

_HALVINGS = 50
"""How often an interval that holds the time of a spike is halved: down to the precision of a double."""

_MOST = 1000
"""How many spikes of one neuron a step looks for: a reset just below the threshold would give any number of them."""


def leak(v: Tensor, goal: Tensor, tau: Tensor, time: float | Tensor) -> Tensor:
    """The potential after some time on its way to where the input takes it."""
    return goal + (v - goal) * torch.exp(-time / tau)


def _restart(threshold: Tensor, v_reset: Tensor, dynamics: Dynamics) -> Tensor:
    return v_reset if dynamics.reset == "v_reset" else torch.zeros_like(threshold)


def _counted(more: Tensor, dynamics: Dynamics) -> Tensor:
    """How many spikes, from how many came after the first."""
    return 1 + more if dynamics.multi_spike else torch.ones_like(more)


def _spikes(v: Tensor, threshold: Tensor, crossed: Tensor, count: Tensor, slope: Slope) -> Tensor:
    return spike(v - threshold, torch.where(crossed, count, torch.zeros_like(count)), slope)


def leak_and_fire(
    v: Tensor, goal: Tensor, constants: tuple[Tensor, Tensor, Tensor], dynamics: Dynamics, slope: Slope
) -> tuple[Tensor, Tensor]:
    """Spikes and the potential after one step.

    Args:
        v: the potential before.
        goal: where the input takes it.
        constants: tau, threshold, reset.
        dynamics: the rules.
        slope: the surrogate's.
    """
    tau, threshold, v_reset = constants
    end = leak(v, goal, tau, dynamics.dt)
    crossed = (end >= threshold) & (goal > threshold)
    restart = _restart(threshold, v_reset, dynamics)
    safe = torch.where(crossed, goal - threshold, torch.ones_like(end))
    first = tau * torch.log(torch.where(crossed, (goal - v) / safe, torch.ones_like(end))).clamp(min=0)
    again = crossed & (restart < threshold)  # from behind the threshold nothing would ever end
    period = tau * torch.log(torch.where(again, (goal - restart) / safe, torch.full_like(end, 2.0)))
    period = torch.where(again, period, torch.full_like(end, 2 * dynamics.dt))
    left = dynamics.dt - first
    more = torch.floor(left / period).clamp(min=0)
    after = leak(restart.expand_as(end), goal, tau, left - more * period)
    spikes = _spikes(end, threshold, crossed, _counted(more, dynamics), slope)
    return spikes, torch.where(crossed, after, end)


def integrate_and_fire(
    v: Tensor, drive: Tensor, levels: tuple[Tensor, Tensor], dynamics: Dynamics, slope: Slope
) -> tuple[Tensor, Tensor]:
    """Spikes and the potential after one step of an integrator without leak.

    Args:
        v: the potential before.
        drive: what the step adds.
        levels: threshold and reset.
        dynamics: the rules.
        slope: the surrogate's.
    """
    threshold, v_reset = levels
    end = v + drive
    crossed = (end >= threshold) & (drive > 0)
    restart = _restart(threshold, v_reset, dynamics)
    rate = torch.where(crossed, drive, torch.ones_like(end))
    left = 1 - ((threshold - v) / rate).clamp(min=0)
    period = (threshold - restart) / rate
    period = torch.where(crossed & (period > 0), period, torch.full_like(end, 2.0))
    more = torch.floor(left / period).clamp(min=0)
    spikes = _spikes(end, threshold, crossed, _counted(more, dynamics), slope)
    return spikes, torch.where(crossed, restart + (left - more * period) * rate, end)


def synapse(
    i: Tensor, v: Tensor, goal: Tensor, constants: tuple[Tensor, Tensor, Tensor, Tensor], time: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Current and potential after some time.

    Args:
        i: the current before.
        v: the potential before.
        goal: where the input takes the current.
        constants: tau_syn, tau_mem, r, v_leak.
        time: how long.
    """
    tau_syn, tau_mem, r, v_leak = constants
    slow, fast = torch.exp(-time / tau_mem), torch.exp(-time / tau_syn)
    apart = tau_syn - tau_mem
    alike = apart.abs() < 1e-6 * tau_mem
    shared = torch.where(
        alike, time / tau_mem * slow, tau_syn * (fast - slow) / torch.where(alike, torch.ones_like(apart), apart)
    )
    end = v_leak + r * goal
    return goal + (i - goal) * fast, end + (v - end) * slow + r * (i - goal) * shared


def current_and_fire(
    values: tuple[Tensor, Tensor],
    goal: Tensor,
    constants: tuple[Tensor, Tensor, Tensor, Tensor],
    levels: tuple[Tensor, Tensor],
    rules: tuple[Dynamics, Slope],
) -> tuple[Tensor, Tensor, Tensor]:
    """Spikes, current and potential after one step; the times of spikes are found by halving.

    There is at most one spike where the rules say so; else as many as come, one after the other.

    Args:
        values: current and potential before.
        goal: where the input takes the current.
        constants: as `synapse` takes them.
        levels: threshold and reset.
        rules: the rules, and the surrogate's slope.

    Raises:
        DynamicsError: a neuron spikes more than 1,000 times.
    """
    (i, v), (threshold, v_reset), (dynamics, slope) = values, levels, rules
    end_i, end_v = synapse(i, v, goal, constants, dynamics.dt)
    restart = _restart(threshold, v_reset, dynamics).expand_as(end_v)
    left, last = torch.full_like(end_v, dynamics.dt), end_v
    crossed = end_v >= threshold
    count = torch.ones_like(end_v)
    now = crossed
    for _ in range(_MOST):
        time = _reached(i, v, goal, constants, (threshold, left))
        then_i, _ = synapse(i, v, goal, constants, time)
        left = left - time
        i, v = torch.where(now, then_i, i), torch.where(now, restart, v)
        last = torch.where(now, synapse(i, v, goal, constants, left)[1], last)
        now = now & (last >= threshold) & (restart < threshold)
        if not dynamics.multi_spike or not now.any():
            break
        count = count + now
    else:
        raise DynamicsError(
            f"a CubaLIF spikes more than {_MOST:,} times in one step of {dynamics.dt:g} s: take a smaller dt, a "
            "v_reset further below v_threshold, weaker inputs, or multi_spike=False"
        )
    return _spikes(end_v, threshold, crossed, count, slope), end_i, last


def _reached(
    i: Tensor,
    v: Tensor,
    goal: Tensor,
    constants: tuple[Tensor, Tensor, Tensor, Tensor],
    bounds: tuple[Tensor, Tensor],
) -> Tensor:
    """When the potential reaches the threshold, where it does so before some time is over."""
    threshold, high = bounds
    low = torch.zeros_like(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = synapse(i, v, goal, constants, middle)[1] >= threshold
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return high
