"""Comparisons with constants: a Threshold."""

from __future__ import annotations

import nir
import numpy as np

from nir_bridge.exporting.calls import Call, Outcome, Rule
from nir_bridge.exporting.recipes import Array, Built, Site
from nir_bridge.exporting.trace import Signal


def _threshold(call: Call) -> Outcome:
    left, right = call.argument(0, "input"), call.argument(1, "other")
    test = ">" if call.name in ("gt", "__gt__", "greater") else ">="
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
    **dict.fromkeys(
        ("gt", "__gt__", "greater"), Rule(_threshold, "Threshold, with a constant, where dynamics have `>`")
    ),
    **dict.fromkeys(
        ("ge", "__ge__", "greater_equal"), Rule(_threshold, "Threshold, with a constant, where dynamics have `>=`")
    ),
}
