"""The pieces that a step of a neuron is put together from.

Every linear part of a step has the form `decay * value + drive`, where the drive does not depend on the state, so that
it can be computed for a whole series at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch import Tensor

from nir_bridge.dynamics import Dynamics
from nir_bridge.surrogate import Slope, spike

Test = Callable[[Tensor, Tensor], Tensor]
"""From potential and threshold to where it spikes, bool, or to how often."""


def decay_of(tau: Tensor, dynamics: Dynamics) -> Tensor:
    """What is left of a value after one step."""
    ratio = dynamics.dt / _wide(tau)
    return (1 - ratio if dynamics.integration == "euler" else torch.exp(-ratio)).to(tau.dtype)


def gain_of(kind: str, tau: Tensor, weight: Tensor, dt: float) -> Tensor | None:
    """What an input counts for in one step; None for 1."""
    if kind == "one":
        return None
    ratio = dt / _wide(tau)
    share = ratio if kind == "dt/tau" else -torch.expm1(-ratio)
    return (share * weight).to(weight.dtype)


def unless_one(gain: Tensor | None, known: bool) -> Tensor | None:
    """A gain; None where it is known to be 1, as most frameworks choose the constants that they write."""
    return None if gain is None or (known and bool((gain == 1).all())) else gain


def _wide(tau: Tensor) -> Tensor:
    """A time constant in a type in which its inverse is finite."""
    return tau.float() if tau.dtype.itemsize < 4 else tau


def offset_of(decay: Tensor, v_leak: Tensor, known: bool) -> Tensor | None:
    """What the leak adds in one step; None where that is known to be nothing."""
    return None if known and not bool(v_leak.any()) else (1 - decay) * v_leak


def test_of(dynamics: Dynamics) -> Test:
    """How a potential is compared with the threshold: chosen once, so that steps need not ask."""
    if dynamics.multi_spike:
        return _count_over if dynamics.spike_test == ">" else _count_from
    return operator.gt if dynamics.spike_test == ">" else operator.ge


def fire(v: Tensor, threshold: Tensor, test: Test, slope: Slope) -> tuple[Tensor, Tensor]:
    """The spikes of one step, with a surrogate gradient, and what the test says.

    Args:
        v: the potential.
        threshold: what it is compared with.
        test: how.
        slope: the surrogate's.
    """
    found = test(v, threshold)
    if (v.requires_grad or threshold.requires_grad) and torch.is_grad_enabled():
        found = found.detach()
        return spike(_distance(v, threshold, found), found, slope), found
    return found.type_as(v), found


def _distance(v: Tensor, threshold: Tensor, found: Tensor) -> Tensor:
    """How far a potential is above the threshold; where there are several, above the nearest: one, two ... times it."""
    if found.dtype is torch.bool:
        return v - threshold
    return v / threshold - torch.round(v / threshold).clamp(min=1).detach()


def _count_over(v: Tensor, threshold: Tensor) -> Tensor:
    """How often the threshold fits into the potential, with something left."""
    return (torch.ceil(v / threshold) - 1).clamp(min=0)


def _count_from(v: Tensor, threshold: Tensor) -> Tensor:
    """How often the threshold fits into the potential."""
    return torch.floor(v / threshold).clamp(min=0)
