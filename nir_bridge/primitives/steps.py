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


def fire(v: Tensor, threshold: Tensor, dynamics: Dynamics, slope: Slope) -> Tensor:
    """The spikes of one step, with a surrogate gradient.

    Args:
        v: the potential.
        threshold: what it is compared with.
        dynamics: how.
        slope: the surrogate's.
    """
    if dynamics.multi_spike:
        above = torch.floor(v / threshold).clamp(min=0)
        if dynamics.spike_test == ">":
            above = (torch.ceil(v / threshold) - 1).clamp(min=0)
    else:
        above = v > threshold if dynamics.spike_test == ">" else v >= threshold
    if not (torch.is_grad_enabled() and (v.requires_grad or threshold.requires_grad)):
        return above.to(v.dtype)
    distance = v - threshold
    if dynamics.multi_spike:  # the nearest of the thresholds, one, two, three ... times
        distance = v / threshold - torch.round(v / threshold).clamp(min=1).detach()
    return spike(distance, above, slope)


def reset(v: Tensor, spikes: Tensor, threshold: Tensor, v_reset: Tensor, dynamics: Dynamics) -> Tensor:
    """The potential after its spikes."""
    if dynamics.reset == "v_reset":
        return torch.where(spikes.detach() > 0, v_reset, v)
    return v - spikes * threshold
