"""Layers as functions: `linear`, convolutions, pooling, normalisation with fixed statistics."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np

from nir_bridge.exporting.calls import Call, Outcome, Rule
from nir_bridge.exporting.recipes import Built, ConvRecipe, Elementwise, LinearRecipe, Recipe, array


def pair(value: Any) -> tuple[int, int]:
    """One number for both axes, or two."""
    found = [int(item) for item in value] if isinstance(value, tuple | list) else [int(value)]
    return (found[0], found[-1])


def tupled(value: Any, rank: int) -> Any:
    """A setting of a convolution: one number an axis, or a word."""
    if isinstance(value, str):
        return value
    found = tuple(int(item) for item in value) if isinstance(value, tuple | list) else (int(value),)
    return found * rank if len(found) == 1 else found


def pool_recipe(kind: type[nir.NIRNode], kernel: Any, stride: Any, padding: Any) -> Recipe:
    """A pooling node."""
    fields = [np.array(pair(value)) for value in (kernel, kernel if stride in (None, [], ()) else stride, padding)]
    return Built(lambda _: kind(*fields))


def normalised(mean: Any, variance: Any, weight: Any, bias: Any, eps: float, rank: int) -> Elementwise:
    """Normalisation with fixed statistics: `scale * x + shift` for each channel of a signal of `rank` axes."""
    scale = 1 / np.sqrt(array(variance).astype(np.float64) + eps)
    kind = array(mean).dtype
    if weight is not None:
        scale = scale * array(weight)
    shift = -array(mean) * scale
    if bias is not None:
        shift = shift + array(bias)
    shape = (-1, *[1] * max(rank - 1, 0))
    return Elementwise(scale.reshape(shape).astype(kind), shift.reshape(shape).astype(kind))


def _constants(call: Call, *values: Any) -> None:
    if any(call.tracer.value(value) is not None for value in values):
        raise call.no_meaning("weights that depend on the input have no meaning in NIR")
    call.fixed(*values)


def _linear(call: Call) -> Outcome:
    weight, bias = call.argument(1, "weight"), call.argument(2, "bias")
    _constants(call, weight, bias)
    recipe = LinearRecipe(array(weight), None if bias is None else array(bias))
    return call.apply(recipe, call.argument(0, "input"))


def _conv(call: Call) -> Outcome:
    weight, bias = call.argument(1, "weight"), call.argument(2, "bias")
    _constants(call, weight, bias)
    rank = weight.dim() - 2
    settings = [
        tupled(call.argument(at, name, default), rank)
        for at, name, default in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
    ]
    held = None if bias is None else array(bias)
    stride, padding, dilation = settings
    recipe = ConvRecipe(array(weight), held, stride, padding, dilation, int(call.argument(6, "groups", 1)))
    return call.apply(recipe, call.argument(0, "input"))


def _avg_pool(call: Call) -> Outcome:
    kernel = call.argument(1, "kernel_size")
    stride, padding = call.argument(2, "stride"), call.argument(3, "padding", 0)
    ceil, counts, divisor = (
        call.argument(4, "ceil_mode", False),
        call.argument(5, "count_include_pad", True),
        call.argument(6, "divisor_override"),
    )
    problem = pool_problem(ceil, counts, padding)
    if problem:
        raise call.no_meaning(problem)
    kind, x = nir.AvgPool2d, call.argument(0, "input")
    if divisor == 1:
        return call.apply(pool_recipe(nir.SumPool2d, kernel, stride, padding), x, "sum_pool2d")
    if divisor not in (None, int(np.prod(pair(kernel)))):
        raise call.no_meaning("divisor_override has to be 1 or the size of the window")
    return call.apply(pool_recipe(kind, kernel, stride, padding), x)


def pool_problem(ceil_mode: Any, counts_padding: Any, padding: Any) -> str:
    """Why an average has no meaning; empty if it has."""
    if ceil_mode:
        return "ceil_mode=True has no meaning in NIR; pad the input, or round down"
    if not counts_padding and any(pair(padding)):
        return "count_include_pad=False has no meaning in NIR, whose averages count the padding"
    return ""


def _lp_pool(call: Call) -> Outcome:
    if float(call.argument(1, "norm_type")) != 1:
        raise call.no_meaning("only norm_type=1, a sum, has a meaning in NIR: SumPool2d")
    if call.argument(4, "ceil_mode", False):
        raise call.no_meaning("ceil_mode=True has no meaning in NIR")
    kernel, stride = call.argument(2, "kernel_size"), call.argument(3, "stride")
    return call.apply(pool_recipe(nir.SumPool2d, kernel, stride, 0), call.argument(0, "input"), "sum_pool2d")


def _batch_norm(call: Call) -> Outcome:
    x, mean, variance = call.argument(0, "input"), call.argument(1, "running_mean"), call.argument(2, "running_var")
    if call.tracer.batch_dims != 1:
        raise call.no_meaning("it takes exactly one batch axis; say batch_dims=1")
    if call.argument(5, "training", False) or mean is None:
        raise call.no_meaning("statistics of the batch have no meaning in NIR; call model.eval() first")
    weight, bias = call.argument(3, "weight"), call.argument(4, "bias")
    recipe = normalised(mean, variance, weight, bias, call.argument(7, "eps", 1e-5), call.result.dim() - 1)
    return call.apply(recipe, x)


LAYERS = {
    "linear": Rule(_linear, "Affine, or Linear without a bias"),
    **dict.fromkeys(("conv1d", "conv2d"), Rule(_conv, "Conv1d or Conv2d; without a bias, one of zeros")),
    "avg_pool2d": Rule(_avg_pool, "AvgPool2d; SumPool2d with divisor_override=1"),
    "lp_pool2d": Rule(_lp_pool, "SumPool2d, with norm_type=1"),
    "batch_norm": Rule(
        _batch_norm, "folded into the Affine or convolution before, or a node of its own; in evaluation mode"
    ),
}
