"""Comparisons with constants: a Threshold."""

from __future__ import annotations

import nir
import numpy as np

from nir_bridge.exporting.calls import Call, Outcome, Rule
from nir_bridge.exporting.recipes import Array, Built, Site
from nir_bridge.exporting.trace import Signal

_GREATER = ("gt", "__gt__", "greater")
_GREATER_EQUAL = ("ge", "__ge__", "greater_equal")
_LESS = ("lt", "__lt__", "less")
_LESS_EQUAL = ("le", "__le__", "less_equal")


def _threshold(call: Call) -> Outcome:
    left, right = call.argument(0, "input"), call.argument(1, "other")
    if call.name in (*_LESS, *_LESS_EQUAL):  # `signal > parameter` is called as `parameter < signal`
        left, right = right, left
    test = ">" if call.name in (*_GREATER, *_LESS) else ">="
    wanted = call.tracer.setting.dynamics.spike_test
    if not isinstance(call.tracer.value(left), Signal) or call.tracer.value(right) is not None:
        raise call.no_meaning("only a comparison of a signal with a constant has a meaning in NIR, as a Threshold")
    if test != wanted:
        raise call.no_meaning(f"these dynamics compare with {wanted!r}; use it, or other dynamics")
    call.keeps_shape(left)
    found = call.constant(right, left)
    return call.apply(Built(lambda site: _node(found, site)), left, "threshold", same=True)


def _node(threshold: Array, site: Site) -> nir.NIRNode:
    found = threshold if threshold.dtype.kind == "f" else threshold.astype(np.float32)
    return nir.Threshold(np.array(np.broadcast_to(found, site.shape())))


COMPARING = {
    **dict.fromkeys(_GREATER, Rule(_threshold, "Threshold, with a constant, where dynamics have `>`")),
    **dict.fromkeys(_GREATER_EQUAL, Rule(_threshold, "Threshold, with a constant, where dynamics have `>=`")),
    **dict.fromkeys(_LESS, Rule(_threshold, "Threshold, where a constant is less, and dynamics have `>`")),
    **dict.fromkeys(
        _LESS_EQUAL, Rule(_threshold, "Threshold, where a constant is less or equal, and dynamics have `>=`")
    ),
}
