"""Convolutions and transposed ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from unflatten.leaves.leaf import Leaf, Operator, Proposal
from unflatten.leaves.registry import register


def _common(leaf: Leaf, found: Operator) -> dict[str, Any]:
    return {
        "kernel_size": leaf.state["weight"].shape[2:],
        "stride": found.list("stride"),
        "dilation": found.list("dilation"),
        "groups": found["groups"],
        "bias": "bias" in leaf.state,
    }


def _convolution(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("conv1d", "conv2d", "conv3d")
    if found is None or "weight" not in leaf.state:
        return
    out, size = leaf.state["weight"].shape[:2]
    padding, mode = _padding(leaf, found)
    yield Proposal(
        {
            **_common(leaf, found),
            "in_channels": size * found["groups"],
            "out_channels": out,
            "padding": padding,
            "padding_mode": mode,
        }
    )


def _padding(leaf: Leaf, found: Operator) -> tuple[Any, str]:
    """The padding, and how it is done: by the convolution, or before it."""
    before = leaf.find("pad")
    if before is None:
        padding = found["padding"]
        return padding if isinstance(padding, str) else tuple(padding), "zeros"
    sizes = before.list("pad")
    pairs = list(zip(sizes[::2], sizes[1::2], strict=True))[::-1]
    if all(low == high for low, high in pairs):
        return tuple(low for low, _ in pairs), before["mode"]
    return "same", before["mode"]


def _transposed(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
    if found is None or "weight" not in leaf.state:
        return
    size, out = leaf.state["weight"].shape[:2]
    yield Proposal(
        {
            **_common(leaf, found),
            "in_channels": size,
            "out_channels": out * found["groups"],
            "padding": found.list("padding"),
            "output_padding": found.list("output_padding"),
        }
    )


_CLASSES: dict[str, tuple[type[nn.Module], type[nn.Module]]] = {
    "1d": (nn.Conv1d, nn.ConvTranspose1d),
    "2d": (nn.Conv2d, nn.ConvTranspose2d),
    "3d": (nn.Conv3d, nn.ConvTranspose3d),
}

for _dimensions, (_straight, _turned) in _CLASSES.items():
    register(_straight, _convolution, [f"conv{_dimensions}"])
    register(_turned, _transposed, [f"conv_transpose{_dimensions}"])
