"""Changes of shape: a Flatten where axes are joined, nothing where the shape stays."""

from __future__ import annotations

import math

import nir
import numpy as np
from torch import Tensor

from nir_bridge.exporting.calls import Call, Outcome, Rule
from nir_bridge.exporting.recipes import Built, Site
from nir_bridge.exporting.trace import Signal
from nir_bridge.fields import Shape


def flatten_node(start: int, end: int, site: Site) -> nir.NIRNode:
    """A Flatten of axes of the batch-less shape."""
    shape = site.takes
    return nir.Flatten(None if shape is None else np.array(shape), start, end)


def joined(before: Shape, after: Shape) -> tuple[int, int] | None:
    """Which axes became one; None where it is something else."""
    for start in range(len(before)):
        for end in range(start, len(before)):
            if after == (*before[:start], math.prod(before[start : end + 1]), *before[end + 1 :]):
                return start, end
    return None


def reshaped(call: Call, tensor: Tensor, *, node: bool) -> Outcome:
    """What a change of shape means.

    Args:
        call: the call.
        tensor: its input.
        node: whether a change of nothing is a node, too.
    """
    batch = call.tracer.batch_dims
    if call.result.shape == tensor.shape and not node:
        return call.tracer.value(tensor)
    before, after = call.tracer.shape(tensor), call.gives()
    found = joined(before, after)
    if call.result.shape[:batch] != tensor.shape[:batch] or call.result.dim() < batch:
        raise call.no_meaning(
            f"it changes batch axes, from {tuple(tensor.shape)} to {tuple(call.result.shape)}, the first {batch} "
            "of which are batch; NIR has no batch. Leave them alone, or say how many there are: "
            "to_nir(model, batch_dims=...)"
        )
    if found is None:
        raise call.no_meaning(f"from {before} to {after} is no joining of neighbouring axes, which Flatten is")
    start, end = found
    last = end - len(before) if end == len(before) - 1 else end
    return call.apply(Built(lambda site: flatten_node(start, last, site)), tensor, "flatten")


def _flatten(call: Call) -> Outcome:
    tensor = call.argument(0, "input")
    batch = call.tracer.batch_dims
    start, end = (
        int(call.argument(at, name, default)) % max(tensor.dim(), 1)
        for at, name, default in ((1, "start_dim", 0), (2, "end_dim", -1))
    )
    if start < batch and call.result.shape != tensor.shape:
        return reshaped(call, tensor, node=True)
    if start < batch:
        return call.tracer.value(tensor)
    signal = call.tracer.value(tensor)
    if not isinstance(signal, Signal):
        return signal
    return flattened(call, tensor, start - batch, end - batch)


def flattened(call: Call, tensor: Tensor, start: int, end: int) -> Outcome:
    """A Flatten node."""
    rank = tensor.dim() - call.tracer.batch_dims
    last = -1 if end == rank - 1 else end
    return call.apply(Built(lambda site: flatten_node(start, last, site)), tensor, "flatten")


def _view(call: Call) -> Outcome:
    tensor = call.argument(0, "input")
    if not call.result.is_floating_point() or call.result.dtype != tensor.dtype:
        raise call.no_meaning("a view as another type has no meaning in NIR")
    return reshaped(call, tensor, node=False)


def _moved(call: Call) -> Outcome:
    tensor = call.argument(0, "input")
    if call.result.shape == tensor.shape:
        return call.tracer.value(tensor)
    raise call.no_meaning("it moves or adds axes, and NIR nodes can't; change the layout outside of the model")


SHAPING = {
    **dict.fromkeys(("flatten", "ravel"), Rule(_flatten, "Flatten; batch axes have to be left alone")),
    **dict.fromkeys(
        ("view", "reshape", "_unsafe_view", "unflatten"), Rule(_view, "Flatten, where neighbouring axes are joined")
    ),
    **dict.fromkeys(("squeeze", "squeeze_"), Rule(_moved, "left out, where the shape stays", keeps_state=True)),
}
