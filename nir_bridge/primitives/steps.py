"""The pieces that a step of a neuron is put together from.

Every linear part of a step has the form `decay * value + drive`, where the drive does not depend on the state, so that
it can be computed for a whole series at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nir_bridge.dynamics import Dynamics
from nir_bridge.surrogate import Slope, spike


def decay_of(tau: Tensor, dynamics: Dynamics) -> Tensor:
    """What is left of a value after one step."""
    return 1 - dynamics.dt / tau if dynamics.integration == "euler" else torch.exp(-dynamics.dt / tau)


def gain_of(kind: str, tau: Tensor, weight: Tensor, dt: float) -> Tensor | None:
    """What an input counts for in one step; None for 1."""
    if kind == "one":
        return None
    share = dt / tau if kind == "dt/tau" else -torch.expm1(-dt / tau)
    return share * weight


def scaled(x: Tensor, gain: Tensor | None) -> Tensor:
    """An input times its gain."""
    return x if gain is None else gain * x


def offset_of(decay: Tensor, v_leak: Tensor, known: bool) -> Tensor | None:
    """What the leak adds in one step; None where that is known to be nothing."""
    return None if known and not bool(v_leak.any()) else (1 - decay) * v_leak


def shifted(x: Tensor, offset: Tensor | None) -> Tensor:
    """A value with an offset added."""
    return x if offset is None else x + offset


def fire(v: Tensor, threshold: Tensor, dynamics: Dynamics, slope: Slope) -> tuple[Tensor, Tensor]:
    """The spikes of one step, with a surrogate gradient, and where they are.

    Args:
        v: the potential.
        threshold: what it is compared with.
        dynamics: how.
        slope: the surrogate's.
    """
    if dynamics.multi_spike:
        count = _count(v, threshold, dynamics.spike_test)
        where = count > 0
    else:
        count = where = v > threshold if dynamics.spike_test == ">" else v >= threshold
    if not (torch.is_grad_enabled() and (v.requires_grad or threshold.requires_grad)):
        return count.to(v.dtype), where
    distance = v - threshold
    if dynamics.multi_spike:  # the nearest of the thresholds, one, two, three ... times
        distance = v / threshold - torch.round(v / threshold).clamp(min=1).detach()
    return spike(distance, count, slope), where


def _count(v: Tensor, threshold: Tensor, spike_test: str) -> Tensor:
    """How often the threshold fits into the potential."""
    if spike_test == ">":
        return (torch.ceil(v / threshold) - 1).clamp(min=0).detach()
    return torch.floor(v / threshold).clamp(min=0).detach()
