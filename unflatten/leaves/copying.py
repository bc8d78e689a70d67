"""Making modules of a prototype that is on the meta device: cheap copies without tensors."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn


def copied(prototype: nn.Module) -> nn.Module:
    """A module like the prototype, and those inside it, with tables of its own; its tensors are to be set."""
    made = prototype.__class__.__new__(prototype.__class__)
    made.__dict__.update((name, _own(value)) for name, value in prototype.__dict__.items())
    for name, inner in prototype._modules.items():
        made._modules[name] = None if inner is None else copied(inner)
    return made


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list | set) else value


def writes_buffers(module: nn.Module) -> bool:
    """Whether a module may write its buffers in one of its modes."""
    return bool(getattr(module, "track_running_stats", False))


def settle(module: nn.Module) -> None:
    """Has a module that got its tensors believe that it always had them."""
    for inner in module.modules():
        if isinstance(inner, nn.RNNBase):  # would else take its weights for changed, and lay them out anew
            inner._flat_weight_refs = [
                None if weight is None else weakref.ref(weight) for weight in inner._flat_weights
            ]
