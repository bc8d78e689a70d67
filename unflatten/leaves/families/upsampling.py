"""Resizing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from unflatten.leaves.leaf import Leaf, Proposal
from unflatten.leaves.registry import register
from unflatten.leaves.tables import one_or_all

_MODES = {
    "nearest1d": "nearest",
    "nearest2d": "nearest",
    "nearest3d": "nearest",
    "linear1d": "linear",
    "bilinear2d": "bilinear",
    "bicubic2d": "bicubic",
    "trilinear3d": "trilinear",
    "nearest_exact1d": "nearest-exact",
    "nearest_exact2d": "nearest-exact",
    "nearest_exact3d": "nearest-exact",
}
_OPERATORS = [f"{prefix}upsample_{name}" for name in _MODES for prefix in ("", "_")]


def _upsample(leaf: Leaf, cls: type[nn.Module]) -> Iterator[Proposal]:
    found = next((found for found in leaf.operators() if found.name in _OPERATORS), None)
    if found is None:
        return
    size, factors = found.arguments.get("output_size"), found.arguments.get("scale_factors")
    kwargs: dict[str, Any] = {
        "size": one_or_all(tuple(size)) if size else None,
        "scale_factor": one_or_all(tuple(factors)) if factors else None,
    }
    if cls is nn.Upsample:
        kwargs["mode"] = _MODES[found.name.lstrip("_").removeprefix("upsample_")]
        kwargs["align_corners"] = found.arguments.get("align_corners") or None
    yield Proposal(kwargs)


for _class in (nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d):
    register(_class, _upsample, _OPERATORS if _class is nn.Upsample else ())
