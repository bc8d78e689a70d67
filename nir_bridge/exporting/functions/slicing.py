"""Steps of a series: a model that loops over time takes its input apart and puts its outputs together."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nir_bridge.exporting.calls import Call, Outcome, Rule
from nir_bridge.exporting.recipes import Slice, Stack
from nir_bridge.exporting.trace import Signal, Value


def _slice(call: Call, tensor: Tensor, result: Tensor, axis: int, at: int) -> Value | None:
    signal = call.tracer.value(tensor)
    if not isinstance(signal, Signal):
        return signal
    recipe = Slice(axis, at, tensor.shape[axis])
    op = call.tracer.emit(("step",), recipe, {"input": (signal, tensor)}, call.tracer.shape(result), call.where)
    return call.tracer.result(op)


def _getitem(call: Call) -> Outcome:
    tensor, index = call.args
    parts = index if isinstance(index, tuple) else (index,)
    if call.result is tensor or (call.result.shape == tensor.shape and all(_is_all(part) for part in parts)):
        return call.tracer.value(tensor)
    numbers = [(axis, part) for axis, part in enumerate(parts) if isinstance(part, int) and not isinstance(part, bool)]
    if len(numbers) != 1 or Ellipsis in parts or not all(_is_all(part) for part in parts if not isinstance(part, int)):
        raise call.no_meaning(
            "a part of a signal has no meaning in NIR. Only whole time steps can be taken, one after "
            "the other: x[t], or x[:, t]"
        )
    axis, at = numbers[0]
    return _slice(call, tensor, call.result, axis, at % tensor.shape[axis])


def _is_all(part: Any) -> bool:
    return part is Ellipsis or (isinstance(part, slice) and part == slice(None))


def _unbind(call: Call) -> Outcome:
    tensor, dim = call.argument(0, "input"), int(call.argument(1, "dim", 0))
    axis = dim % tensor.dim()
    return [_slice(call, tensor, result, axis, at) for at, result in enumerate(call.result)]


def _select(call: Call) -> Outcome:
    tensor = call.argument(0, "input")
    axis, at = int(call.argument(1, "dim")) % tensor.dim(), int(call.argument(2, "index"))
    return _slice(call, tensor, call.result, axis, at % tensor.shape[axis])


def _stack(call: Call) -> Outcome:
    given = list(call.argument(0, "tensors"))
    signals = [call.tracer.value(tensor) for tensor in given]
    inputs = {}
    for at, (tensor, signal) in enumerate(zip(given, signals, strict=True)):
        if not isinstance(signal, Signal):
            raise call.no_meaning(
                "it puts together steps that are no signals; leave those out that do not depend on inputs"
            )
        inputs[str(at)] = (signal, tensor)
    axis = int(call.argument(1, "dim", 0)) % call.result.dim()
    op = call.tracer.emit(("stack",), Stack(axis), inputs, call.gives(), call.where)
    return call.tracer.result(op)


SLICING = {
    "__getitem__": Rule(_getitem, "a time step, in a model that loops over time"),
    "unbind": Rule(_unbind, "time steps, in a model that loops over time"),
    "select": Rule(_select, "a time step, in a model that loops over time"),
    "stack": Rule(_stack, "the outputs of all time steps, in a model that loops over time"),
}
