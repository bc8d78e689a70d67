"""Products with constants: a Scale."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from nir_bridge.exporting.calls import Call, Outcome, Rule
from nir_bridge.exporting.functions.sums import negated
from nir_bridge.exporting.recipes import Array, Elementwise, LinearRecipe, array
from nir_bridge.exporting.trace import Signal


def _scaled(call: Call, tensor: Tensor, constant: Array) -> Outcome:
    call.keeps_shape(tensor)
    if constant.size == 1 and float(constant.reshape(-1)[0]) == 1:
        return call.tracer.value(tensor)
    scale = constant if constant.dtype.kind == "f" else constant.astype(np.float32)
    return call.apply(Elementwise(scale, None), tensor, same=True)


def _mul(call: Call) -> Outcome:
    left, right = call.argument(0, "input"), call.argument(1, "other")
    first, second = call.tracer.value(left), call.tracer.value(right)
    if first is not None and second is not None:
        raise call.no_meaning("a product of two signals has no meaning in NIR; only constants multiply")
    if first is None:
        left, right = right, left
    call.tracer.learn(left, right)
    return _scaled(call, left, call.constant(right, left))


def _div(call: Call) -> Outcome:
    left, right = call.argument(0, "input"), call.argument(1, "other")
    if call.tracer.value(right) is not None or call.kwargs.get("rounding_mode") is not None:
        raise call.no_meaning("only a division by a constant, without rounding, has a meaning in NIR")
    call.tracer.learn(left, right)
    divisor = call.constant(right, left)
    if not divisor.all():
        raise call.no_meaning("a division by zero")
    kind = divisor.dtype if divisor.dtype.kind == "f" else np.dtype(np.float32)
    return _scaled(call, left, np.asarray(1 / divisor.astype(np.float64), kind))


def _neg(call: Call) -> Outcome:
    return negated(call, call.argument(0, "input"), -1.0)


def _matmul(call: Call) -> Outcome:
    left, right = call.argument(0, "input"), call.argument(1, "other")
    if not isinstance(call.tracer.value(left), Signal) or call.tracer.value(right) is not None:
        raise call.no_meaning("only `signal @ constant` has a meaning in NIR, as a Linear")
    call.fixed(right)
    matrix = array(right)
    if matrix.ndim != 2:
        raise call.no_meaning(f"the constant has {matrix.ndim} axes; a matrix has 2")
    return call.apply(LinearRecipe(np.array(matrix.T), None), left, "matmul")


_MUL = Rule(_mul, "Scale, where one factor is a constant")
_DIV = Rule(_div, "Scale, where the divisor is a constant")

SCALING = {
    **dict.fromkeys(("mul", "mul_", "__mul__", "__rmul__", "__imul__", "multiply", "multiply_"), _MUL),
    **dict.fromkeys(("div", "div_", "__truediv__", "__itruediv__", "true_divide", "divide", "divide_"), _DIV),
    **dict.fromkeys(("neg", "neg_", "negative", "negative_", "__neg__"), Rule(_neg, "Scale of -1")),
    **dict.fromkeys(
        ("matmul", "__matmul__", "mm"), Rule(_matmul, "Linear, where the right factor is a constant matrix")
    ),
}
