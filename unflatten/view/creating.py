"""New nodes, which belong where another one does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from unflatten import _torch
from unflatten.flat.operators import facts_of
from unflatten.view.origins import MADE, write_origin
from unflatten.view.values import Owner

_KEPT = ("nn_module_stack", "fwd_nn_module_stack", "custom", "stack_trace", "partitioner_tag")


def create(
    owner: Owner, origin: fx.Node, target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> fx.Node:
    """Makes a node right after another, with that one's module, call and phase, and with the value that it gives."""
    value = _value(target, args, kwargs)
    with origin.graph.inserting_after(origin):
        node = origin.graph.call_function(target, args, dict(kwargs))
    node.meta.update({key: copy.copy(origin.meta[key]) for key in _KEPT if key in origin.meta})
    if value is not None:
        node.meta["val"] = value
    write_origin(node, owner.scope, owner.phase)
    node.meta[MADE] = True
    return node


def _value(target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What an operator gives, as a tensor without data; None where that is not known.

    Ownership of gradients goes by shapes, so that a node without a value would hide those around it.
    """
    taken: list[fx.Node] = []
    fx.map_arg((args, kwargs), taken.append)
    known = all(isinstance(node.meta.get("val"), _torch.FakeTensor | torch.SymInt) for node in taken)
    if not taken or not known or not isinstance(target, _torch.OpOverload) or facts_of(target).writes:
        return None
    given_args, given_kwargs = fx.map_arg((args, kwargs), lambda node: node.meta["val"])
    try:
        with torch.no_grad():
            return target(*given_args, **given_kwargs)
    except (RuntimeError, TypeError, ValueError):  # no meta kernel, or a call that fails when the graph runs
        return None
