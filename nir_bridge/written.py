"""A network as source: one step as a program, its state as plain dicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim

from nir_bridge.errors import CallError
from nir_bridge.plan import Plan, Port
from nir_bridge.state import State
from unflatten import UnflattenedModule, export, source, unflatten
from unflatten.source.formatting import layout
from unflatten.source.text import quoted

_BATCH = 3


def source_tree(net: UnflattenedModule, plan: Plan) -> source.Tree:
    """What `unflatten.source.write` writes of a network.

    Args:
        net: the network, or a group of it.
        plan: what it knows of itself.

    Raises:
        CallError: the shape of an input is not known.
    """
    inputs = [_example(port, plan) for port in plan.ports]
    if not plan.stateful:
        shapes = tuple(_axes(value) for value in inputs)
        return source.Tree(unflatten(export(net, tuple(inputs), dynamic_shapes=shapes)))
    with torch.no_grad():
        state = net(*inputs)[1]
        start = net.initial_state((_BATCH,), inputs[0] if inputs else None)
    shapes = tuple(_axes(value) for value in (*inputs, state))
    root = unflatten(export(net, (*inputs, state), dynamic_shapes=shapes))
    names = [port.parameter for port in plan.ports]
    return source.Tree(root, frozenset({State}), lambda name: "\n".join(_stepping(name, names, start, state)))


def _example(port: Port, plan: Plan) -> Tensor:
    if port.shape is None:
        raise CallError(f"the shape of input {port.name!r} is not known, so that no step of it can be written")
    return torch.zeros((_BATCH, *port.shape), device=plan.device, dtype=plan.dtype)


def _axes(value: Any) -> Any:
    """The axes that may vary: the first of each tensor."""
    if isinstance(value, State):
        return [_axes(part) for part in value.values()]
    if isinstance(value, tuple | list):
        return type(value)(_axes(part) for part in value)
    return {0: Dim.AUTO} if isinstance(value, Tensor) else None


def _stepping(name: str, names: list[str], start: Any, after: Any) -> Iterator[str]:
    """A class that starts by itself, so that it is called as the network is."""
    x, given = names[0], ", ".join(names)
    yield ""
    yield f"class {name}({name}):"
    yield '    """A network in time, one step a call; without a state it starts anew."""'
    yield ""
    yield f"    def forward(self, {given}, state=None):"
    yield "        if state is None:"
    yield f"            state = self.initial_state({x})"
    yield f"        return super().forward({given}, state)"
    yield ""
    yield f"    def initial_state(self, {x}):"
    yield f'        """The state before the first step, for as many inputs as `{x}` has."""'
    yield from layout(f"return {_started(start, after, x)}", 8)
    yield "\n"


def _started(start: Any, after: Any, x: str) -> str:
    """Python for a part of the state to start from; what starts by itself starts at zero."""
    if isinstance(after, State):
        parts = ((key, None if start is None else start[key], part) for key, part in after.items())
        return "{" + ", ".join(f"{quoted(key)}: {_started(first, part, x)}" for key, first, part in parts) + "}"
    if isinstance(after, tuple):
        items = [_started(None if start is None else start[at], part, x) for at, part in enumerate(after)]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if not isinstance(after, Tensor):
        return repr(after)
    axis = after.shape.index(_BATCH) if start is None and _BATCH in after.shape else 0
    sizes = ", ".join(f"len({x})" if at == axis else str(size) for at, size in enumerate(after.shape))
    sizes = f"({sizes},)" if after.dim() == 1 else f"({sizes})"
    dtype = "" if after.dtype.is_floating_point else f", dtype={after.dtype}"
    if start is None or not bool(start.any()):
        return f"{x}.new_zeros({sizes}{dtype})"
    one = start[0]
    if bool((one == one.reshape(-1)[0]).all()):
        return f"{x}.new_full({sizes}, {one.reshape(-1)[0].item()!r}{dtype})"
    return f"{x}.new_tensor({one.tolist()!r}{dtype}).expand{sizes}"
