"""Whether what a factory made does what it says, found out once, with zeros, on a copy."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.errors import NodeMapError
from nir_bridge.fields import Shape, Target

_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AttributeError)
"""What modules raise for inputs that they don't like: zeros may be such."""


def check_made(module: nn.Module, label: str, stateful: bool, shape: Shape | None, target: Target) -> Shape | None:
    """Compares what a module returns with what the parameters of its `forward` promise.

    Where the shape of its input is not known, or it can't take zeros, its first step will tell.

    Returns:
        The batch-less shape of its output, None where that stays unknown.

    Raises:
        NodeMapError: a module with a state does not return a pair, or one without returns no tensor.
    """
    if shape is None:
        return None
    tried = _tried(module, stateful, shape, target)
    if tried is None:
        return None
    batch, result = tried
    output = result[0] if stateful and _is_pair(result) else result
    if isinstance(output, Tensor) and (stateful == _is_pair(result)):
        return tuple(output.shape[batch:])
    wanted = "an output and a state" if stateful else "one tensor"
    fix = (
        "return (y, state), or take no state"
        if stateful
        else "return a tensor, or take the state as a second parameter named 'state'"
    )
    raise NodeMapError(
        f"the {type(module).__name__} made for node {label!r} has to return {wanted}, as its forward "
        f"{'takes a state' if stateful else 'takes no state'}, but returned {_shown(result)}: {fix}"
    )


def _is_pair(result: Any) -> bool:
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor)


def _shown(result: Any) -> str:
    if isinstance(result, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in result)}"
    return f"a {type(result).__name__}"


def _tried(module: nn.Module, stateful: bool, shape: Shape, target: Target) -> tuple[int, Any] | None:
    """How many batch axes, and the result for zeros; None where the module takes none."""
    for batch in ((2,), ()):
        x = torch.zeros((*batch, *shape), device=target.device, dtype=target.dtype)
        try:
            copied = copy.deepcopy(module)
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                return len(batch), copied(x, None) if stateful else copied(x)
        except _REFUSALS:
            continue
    return None
