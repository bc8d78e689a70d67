"""Whether the arguments of a call nest as those of the capture did."""

from __future__ import annotations

from typing import Any

import torch

from unflatten import _torch
from unflatten.fields import Fields


def nests(value: Any, spec: _torch.TreeSpec) -> bool:
    """Whether a value nests as a spec says; the order of a dict's keys does not matter."""
    if spec.is_leaf():
        if isinstance(value, (dict, list, tuple)):  # dynamo can't trace `dict | list`
            return isinstance(value, torch.Size) or _torch.is_leaf_value(value)
        return True
    if isinstance(spec.context, Fields):
        names = spec.context.names
        return type(value) is spec.type and all(
            hasattr(value, name) and nests(getattr(value, name), child)
            for name, child in zip(names, spec.children(), strict=True)
        )
    if spec.type is dict:
        return (
            type(value) is dict
            and len(value) == spec.num_children
            and all(
                key in value and nests(value[key], child)
                for key, child in zip(spec.context, spec.children(), strict=True)
            )
        )
    if spec.type in (tuple, list):
        return (
            isinstance(value, spec.type)
            and (type(value) is spec.type or type(value) is torch.Size)
            and len(value) == spec.num_children
            and all(nests(item, child) for item, child in zip(value, spec.children(), strict=True))
        )
    return bool(_torch.structure(value) == spec)
