"""`Affine` and `Linear`: y = W x + b. `Scale`: y = s x.

Weights are (..., out, in): the leading axes are axes of the signal, each with a matrix of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nir_bridge.errors import ShapeError
from nir_bridge.fields import Fields, Shape, Target, parameter
from nir_bridge.primitives.base import Primitive, elementwise, field_shape, mismatch


class StackedLinear(nn.Module):
    """Matrices along the leading axes of a signal: `y[..., o] = sum_i W[..., o, i] x[..., i] + b[..., o]`."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.weight = weight
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        """The product, for any leading batch axes."""
        y = torch.matmul(self.weight, x.unsqueeze(-1)).squeeze(-1)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        """The shape of the weights."""
        return f"{tuple(self.weight.shape)}, bias={self.bias is not None}"


class Scale(nn.Module):
    """`y = scale * x`."""

    def __init__(self, scale: nn.Parameter) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """The product, element by element."""
        return x * self.scale

    def extra_repr(self) -> str:
        """The shape of the factors."""
        return f"{tuple(self.scale.shape)}"


def _weight(fields: Fields) -> Shape:
    """The shape of the weight."""
    shape = fields.shape("weight")
    if len(shape) < 2:
        raise fields.error("weight", f"has shape {shape}; at least (out, in) is needed", ShapeError)
    return shape


def _takes(fields: Fields) -> Shape:
    shape = _weight(fields)
    return (*shape[:-2], shape[-1])


def _gives(fields: Fields, given: Shape | None) -> Shape:
    if given is not None and given != _takes(fields):
        raise mismatch(fields, "weight", _takes(fields), given)
    return _weight(fields)[:-1]


def _bias(fields: Fields) -> NDArray[Any] | None:
    """The bias, where there is one: of the shape of the outputs, or broadcast along their leading axes."""
    if getattr(fields.node, "bias", None) is None:
        return None
    out, bias = _weight(fields)[:-1], fields.finite("bias")
    if bias.shape not in (out, out[-1:]):
        raise fields.error("bias", f"has shape {bias.shape}, but the weight gives {out}", ShapeError)
    return bias


def _make(fields: Fields, _: Shape | None, target: Target) -> nn.Module:
    weight, bias = parameter(fields.finite("weight"), target), _bias(fields)
    held = None if bias is None else parameter(bias, target)
    if weight.dim() > 2:
        return StackedLinear(weight, held)
    linear = nn.Linear(weight.shape[1], weight.shape[0], held is not None, device="meta")
    linear.weight, linear.bias = weight, held  # type: ignore[assignment]
    return linear


def _scale_gives(fields: Fields, given: Shape | None) -> Shape | None:
    return elementwise(fields, "scale", given)


def _make_scale(fields: Fields, _: Shape | None, target: Target) -> nn.Module:
    return Scale(parameter(fields.finite("scale"), target))


LINEAR = Primitive(_takes, _gives, _make)
SCALE = Primitive(lambda fields: field_shape(fields, "scale"), _scale_gives, _make_scale)
