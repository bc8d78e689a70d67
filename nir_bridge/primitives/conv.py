"""`Conv1d` and `Conv2d`: cross-correlations as torch computes them.

Weights are (C_out, C_in / groups, kernel...). Where `input_shape` is missing the size of the input is not checked.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from nir_bridge.errors import ShapeError
from nir_bridge.fields import Fields, Shape, Target, parameter
from nir_bridge.primitives.base import Primitive, mismatch


class _Settings:
    """The fields of a convolution of `rank` spatial axes."""

    def __init__(self, fields: Fields, rank: int) -> None:
        self.fields = fields
        self.rank = rank
        self.weight: Shape = fields.shape("weight")
        if len(self.weight) != rank + 2:
            wanted = f"(C_out, C_in / groups, {', '.join(['kernel'] * rank)})"
            raise fields.error("weight", f"has shape {self.weight}; {wanted} is needed", ShapeError)
        self.stride = fields.numbers("stride", rank)
        self.dilation = fields.numbers("dilation", rank)
        self.groups = fields.numbers("groups", 1)[0]
        self.padding = self._padding()
        self._check()

    def _padding(self) -> Shape | str:
        padding = self.fields.raw("padding")
        if isinstance(padding, bytes):
            padding = padding.decode()
        if not isinstance(padding, str):
            return self.fields.numbers("padding", self.rank)
        if padding not in ("same", "valid"):
            raise self.fields.error("padding", f"is {padding!r}; 'same', 'valid' or whole numbers are needed")
        if padding == "same" and any(stride != 1 for stride in self.stride):
            raise self.fields.error("padding", "'same' needs a stride of 1; give the padding in numbers")
        return padding

    def _check(self) -> None:
        if self.groups < 1 or self.weight[0] % self.groups:
            raise self.fields.error("groups", f"is {self.groups}, which does not divide {self.weight[0]} channels")
        for name in ("stride", "dilation"):
            if min(getattr(self, name)) < 1:
                raise self.fields.error(name, f"is {getattr(self, name)}; it has to be at least 1")
        if isinstance(self.padding, tuple) and min(self.padding) < 0:
            raise self.fields.error("padding", f"is {self.padding}; it can't be negative")

    @property
    def channels(self) -> int:
        """How many channels come in."""
        return self.weight[1] * self.groups

    def takes(self) -> Shape | None:
        """The shape that comes in, where `input_shape` says it."""
        if self.fields.raw("input_shape") is None:
            return None
        return (self.channels, *self.fields.numbers("input_shape", self.rank))

    def gives(self, given: Shape | None) -> Shape | None:
        """The shape that goes out."""
        wanted = self.takes()
        if given is not None and (len(given) != self.rank + 1 or given[0] != self.channels):
            raise mismatch(self.fields, "weight", (self.channels, *["any"] * self.rank), given)
        if given is not None and wanted is not None and given != wanted:
            raise mismatch(self.fields, "input_shape", wanted, given)
        shape = given or wanted
        return None if shape is None else (self.weight[0], *self._sizes(shape))

    def _sizes(self, shape: Shape) -> list[int]:
        if self.padding == "same":
            return list(shape[1:])
        padding = self.padding if isinstance(self.padding, tuple) else (0,) * self.rank
        sizes = []
        for size, pad, dilation, kernel, stride in zip(
            shape[1:], padding, self.dilation, self.weight[2:], self.stride, strict=True
        ):
            sizes.append((size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1)
        if min(sizes) < 1:
            raise self.fields.error(
                "weight", f"the kernel is larger than the padded input of shape {shape}", ShapeError
            )
        return sizes


def _make(fields: Fields, rank: int, target: Target) -> nn.Module:
    settings = _Settings(fields, rank)
    kind: Any = nn.Conv1d if rank == 1 else nn.Conv2d
    conv: nn.Module = kind(
        settings.channels,
        settings.weight[0],
        settings.weight[2:],
        settings.stride,
        settings.padding,
        settings.dilation,
        settings.groups,
        bias=fields.raw("bias") is not None,
        device="meta",
    )
    conv.weight = parameter(fields.finite("weight"), target)
    if fields.raw("bias") is not None:
        bias = fields.finite("bias")
        if bias.shape != settings.weight[:1]:
            raise fields.error(
                "bias", f"has shape {bias.shape}, but there are {settings.weight[0]} channels", ShapeError
            )
        conv.bias = parameter(bias, target)
    return conv


def _primitive(rank: int) -> Primitive:
    return Primitive(
        lambda fields: _Settings(fields, rank).takes(),
        lambda fields, given: _Settings(fields, rank).gives(given),
        lambda fields, _, target: _make(fields, rank, target),
    )


CONV1D = _primitive(1)
CONV2D = _primitive(2)
