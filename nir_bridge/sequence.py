"""Whole series: step by step, or node by node where there is no cycle."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.errors import CallError
from nir_bridge.state import State

Recorded = Mapping[str, Tensor]


def run_series(
    module: Any, xs: Any, state: State | None, time_dim: int, record: tuple[str, ...], layerwise: bool
) -> tuple[Any, State, Recorded]:
    """Stub."""
    inputs = [xs] if isinstance(xs, Tensor) else list(xs)
    series = [value.movedim(time_dim, 0) for value in inputs]
    outs = []
    for step in range(series[0].shape[0]):
        y, state = module(*(value[step] for value in series), state=state)
        outs.append(y)
    if not outs:
        raise CallError("empty")
    if isinstance(outs[0], dict):
        ys: Any = {k: torch.stack([o[k] for o in outs]).movedim(0, time_dim) for k in outs[0]}
    else:
        ys = torch.stack(outs).movedim(0, time_dim)
    assert state is not None
    return ys, state, MappingProxyType({})
