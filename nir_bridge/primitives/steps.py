"""The pieces that a step of a neuron is put together from.

Every linear part of a step has the form `decay * value + drive`, where the drive does not depend on the state, so that
it can be computed for a whole series at once. Pieces are functions with all that is known beforehand filled in, so that
a step asks for nothing that is the same at every step.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch import Tensor

from nir_bridge.dynamics import Dynamics
from nir_bridge.surrogate import Slope, spike

Values = tuple[Tensor, ...]
Test = Callable[[Tensor, Tensor], Tensor]
"""From potential and threshold to where it spikes, bool, or to how often."""
Drive = Callable[[Tensor], Tensor]
"""What an input does, as far as it doesn't depend on the state; inputs may be a series."""
Advance = Callable[[Tensor, Values], tuple[Tensor, Values]]
"""One step: from a drive and the tensors of a state to the output and the new tensors."""
Fire = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From the potential that a step began with, and the one without resets, to the spikes and the potential after."""


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


def affine(gain: Tensor | None, offset: Tensor | None = None) -> Drive:
    """`gain * x + offset`; None for what does nothing."""
    if gain is None:
        return (lambda x: x) if offset is None else (lambda x: x + offset)
    return (lambda x: gain * x) if offset is None else (lambda x: gain * x + offset)


def firing(dynamics: Dynamics, threshold: Tensor, v_reset: Tensor, slope: Slope) -> Fire:
    """How a neuron spikes, and what spikes do to its potential.

    Args:
        dynamics: the rules.
        threshold: what potentials are compared with.
        v_reset: what spikes reset to, where they don't subtract.
        slope: the surrogate's.
    """
    test, several, delayed = test_of(dynamics), dynamics.multi_spike, dynamics.reset == "snntorch_delayed"

    def to_value(_: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        spikes, found = fire(v, threshold, test, slope)
        return spikes, torch.where(found > 0 if several else found, v_reset, v)

    def by_threshold(_: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        spikes, _ = fire(v, threshold, test, slope)
        return spikes, v - spikes * threshold

    def in_two_stages(before: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        last = (before > threshold).type_as(v)  # last step's reset first, then the difference to this one's
        v = v - last * threshold
        spikes, _ = fire(v, threshold, test, slope)
        return spikes, v if delayed else v - (spikes - last) * threshold

    return {"v_reset": to_value, "subtract": by_threshold}.get(dynamics.reset, in_two_stages)


def held_back(advance: Advance, size: int) -> Advance:
    """The same steps with spikes that come out later: those still to come are a part of the state.

    Args:
        advance: the steps.
        size: how many tensors their own state has.
    """

    def late(drive: Tensor, values: Values) -> tuple[Tensor, Values]:
        spikes, after = advance(drive, values[:size])
        return values[size], (*after, *values[size + 1 :], spikes)

    return late


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
