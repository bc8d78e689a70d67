"""Additions: in NIR the edges into a node add up, so these are no nodes; a constant is a bias."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from nir_bridge.exporting.calls import Call, Outcome, Rule
from nir_bridge.exporting.recipes import Elementwise
from nir_bridge.exporting.trace import Signal

_MOST = 10_000
"""How many values a sum may have: each is an edge, and doubling a signal again and again makes too many."""


def negated(call: Call, tensor: Tensor, factor: float) -> Signal:
    """A signal times a number."""
    signal = call.tracer.value(tensor)
    if not isinstance(signal, Signal):
        raise call.no_meaning("its input is no signal")
    if factor == 1:
        return signal
    scale = np.asarray(factor, np.float32)
    label = "neg" if factor == -1 else "mul"
    inputs = {"input": (signal, tensor)}
    op = call.tracer.emit((label,), Elementwise(scale, None), inputs, call.tracer.shape(tensor), call.where)
    return call.tracer.result(op, guess=signal.guess)


def combine(call: Call, left: Any, right: Any, factor: float) -> Outcome:
    """`left + factor * right`."""
    first, second = call.tracer.value(left), call.tracer.value(right)
    if isinstance(first, Signal) and isinstance(second, Signal):
        call.tracer.agree(left, right)
        call.keeps_shape(left)
        call.keeps_shape(right)
        one = call.tracer.terms(first, left)
        other = negated(call, right, factor)
        terms = (*one, *call.tracer.terms(other, right))
        if len(terms) > _MOST:
            raise call.no_meaning(f"a sum of more than {_MOST} values is too many edges; multiply by a number instead")
        return Signal(terms, call.tracer.region.number, first.guess | second.guess)
    if isinstance(first, Signal):
        return shift(call, left, right, factor)
    return shift_of(call, negated(call, right, factor), right, call.constant(left, right))


def shift(call: Call, tensor: Tensor, constant: Any, factor: float) -> Outcome:
    """A signal plus a constant."""
    signal = call.tracer.value(tensor)
    call.tracer.learn(tensor, constant)
    found = call.constant(constant, tensor) * np.float32(factor) if factor != 1 else call.constant(constant, tensor)
    return shift_of(call, signal, tensor, found)


def shift_of(call: Call, signal: Any, tensor: Tensor, constant: Any) -> Outcome:
    """A signal plus an array."""
    call.keeps_shape(tensor)
    if not constant.any():
        return Signal(call.tracer.terms(signal, tensor), call.tracer.region.number, signal.guess)
    inputs = {"input": (signal, tensor)}
    op = call.tracer.emit(("add",), Elementwise(None, constant), inputs, call.tracer.shape(tensor), call.where)
    return call.tracer.result(op, guess=signal.guess)


def _add(call: Call) -> Outcome:
    return combine(call, call.argument(0, "input"), call.argument(1, "other"), _alpha(call))


def _sub(call: Call) -> Outcome:
    return combine(call, call.argument(0, "input"), call.argument(1, "other"), -_alpha(call))


def _rsub(call: Call) -> Outcome:
    return combine(call, call.argument(1, "other"), call.argument(0, "input"), -_alpha(call))


def _alpha(call: Call) -> float:
    alpha = call.kwargs.get("alpha", call.args[2] if len(call.args) > 2 else 1)
    if isinstance(alpha, Tensor):
        raise call.no_meaning("alpha has to be a number")
    return float(alpha)


_ADD = Rule(
    _add, "edges into the same node; a constant is a bias: folded into the Affine or convolution before, or an Affine"
)
_SUB = Rule(_sub, "as an addition, with a Scale of -1")
_RSUB = Rule(_rsub, "as an addition, with a Scale of -1")

SUMS = {
    **dict.fromkeys(("add", "add_", "__add__", "__radd__", "__iadd__"), _ADD),
    **dict.fromkeys(("sub", "sub_", "__sub__", "__isub__", "subtract", "subtract_"), _SUB),
    **dict.fromkeys(("rsub", "__rsub__"), _RSUB),
}
