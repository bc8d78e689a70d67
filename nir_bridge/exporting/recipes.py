"""What a node is going to be, before shapes are known and constants are folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import nir
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nir_bridge.errors import ExportError, NoMeaningError
from nir_bridge.fields import Shape

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a node is made: how messages name it, and its batch-less shapes, None where they are not known."""

    where: str
    takes: Shape | None
    gives: Shape | None

    def shape(self) -> Shape:
        """The shape of the input.

        Raises:
            ExportError: it is not known.
        """
        if self.takes is None:
            raise ExportError(
                f"{self.where}: the shape of its input is not known, and has to be; give to_nir an example: args=(x,)"
            )
        return self.takes


class Recipe:
    """Makes a node."""

    def with_constants(self, scale: Array | None, shift: Array, site: Site) -> Recipe | None:  # noqa: ARG002
        """The same, then multiplied and shifted by constants; None where that is no node of the kind."""
        return None

    def node(self, site: Site) -> nir.NIRNode:
        """The node."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Given(Recipe):
    """A node that a mapper gave."""

    given: nir.NIRNode

    def node(self, site: Site) -> nir.NIRNode:  # noqa: ARG002
        """The node itself."""
        return self.given


@dataclass(frozen=True, slots=True)
class Built(Recipe):
    """A node that depends on shapes."""

    build: Callable[[Site], nir.NIRNode]

    def node(self, site: Site) -> nir.NIRNode:
        """What the function makes."""
        return self.build(site)


def array(tensor: Tensor | float) -> Array:
    """A copy of a tensor as an array, whatever its device, type and history.

    Raises:
        ExportError: it is on the meta device, and has no values.
    """
    if not isinstance(tensor, Tensor):
        return np.asarray(tensor, np.float32)
    if tensor.is_meta:
        raise ExportError("a parameter is on the meta device and has no values; load them first")
    if tensor.is_complex():
        raise NoMeaningError("complex numbers have no meaning in NIR; use real ones")
    dense = tensor.detach().cpu()
    dense = dense.dequantize() if dense.is_quantized else dense
    dense = dense.to_dense() if dense.layout != torch.strided else dense
    if dense.dtype.is_floating_point and dense.dtype not in (torch.float16, torch.float32, torch.float64):
        dense = dense.float()
    return np.array(dense.resolve_conj().resolve_neg().numpy(), copy=True)


@dataclass(frozen=True, slots=True)
class Weighted(Recipe):
    """A weight that multiplies, and what is added."""

    weight: Array
    bias: Array | None

    def channels(self, site: Site) -> Shape:
        """The shape of the output with 1 for each axis along which all share a bias."""
        raise NotImplementedError

    def bias_shape(self) -> Shape:
        """The shape of a bias."""
        raise NotImplementedError

    def with_constants(self, scale: Array | None, shift: Array, site: Site) -> Weighted | None:
        """The same, then multiplied and shifted by constants; None where that is no such node."""
        wanted, shape = self.channels(site), self.bias_shape()
        added = _reduced(shift, wanted, site.gives)
        factor = None if scale is None else _reduced(scale, wanted, site.gives)
        if added is None or (scale is not None and factor is None):
            return None
        weight, bias, kind = self.weight, self.bias, self.weight.dtype
        if factor is not None:
            factor = factor.reshape(shape)
            weight = (weight * factor.reshape(*shape, *[1] * (weight.ndim - len(shape)))).astype(kind)
            bias = None if bias is None else bias * factor
        added = added.reshape(shape)
        return replace(self, weight=weight, bias=np.asarray(added if bias is None else bias + added, kind))


def _reduced(part: Array, wanted: Shape, gives: Shape | None) -> Array | None:
    """A constant with 1 for each axis along which it is the same everywhere, as wanted; None where it isn't."""
    full = wanted if gives is None or len(gives) != len(wanted) else gives
    try:
        spread = np.broadcast_to(part, full)
    except ValueError:
        return None
    first = spread[tuple(slice(0, 1) if size == 1 else slice(None) for size in wanted)]
    return np.array(first) if bool((spread == first).all()) else None


@dataclass(frozen=True, slots=True)
class LinearRecipe(Weighted):
    """y = W x + b."""

    def channels(self, site: Site) -> Shape:
        """Every output has its own; leading axes share them, but for those that the weight has."""
        leading = 0 if site.gives is None else max(len(site.gives) - self.weight.ndim + 1, 0)
        return (*[1] * leading, *self.weight.shape[:-1])

    def bias_shape(self) -> Shape:
        """One for each row."""
        return self.weight.shape[:-1]

    def node(self, site: Site) -> nir.NIRNode:
        """An Affine, or a Linear where nothing is added; a matrix for each of the leading axes of the input."""
        weight, bias = self.weight, self.bias
        takes = site.takes
        if takes is not None and (not takes or takes[-1] != weight.shape[-1]):
            raise ExportError(
                f"{site.where}: takes inputs of {weight.shape[-1]} values, but the batch-less shape is "
                f"{takes}; batch_dims says how many leading axes of the inputs are batch axes"
            )
        if takes is not None and len(takes) > 1 and weight.ndim == 2:
            weight = np.array(np.broadcast_to(weight, (*takes[:-1], *weight.shape)))
            bias = None if bias is None else np.array(np.broadcast_to(bias, weight.shape[:-1]))
        return nir.Linear(weight) if bias is None else nir.Affine(weight, bias)


@dataclass(frozen=True, slots=True)
class ConvRecipe(Weighted):
    """A convolution of one or two spatial axes."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int

    def channels(self, site: Site) -> Shape:  # noqa: ARG002
        """One bias a channel."""
        return (self.weight.shape[0], *[1] * (self.weight.ndim - 2))

    def bias_shape(self) -> Shape:
        """One a channel."""
        return self.weight.shape[:1]

    def node(self, site: Site) -> nir.NIRNode:
        """The convolution; without a bias, zeros are written, which every reader takes."""
        rank = self.weight.ndim - 2
        channels = self.weight.shape[1] * self.groups
        takes = site.takes
        if takes is not None and (len(takes) != rank + 1 or takes[0] != channels):
            raise ExportError(
                f"{site.where}: takes {channels} channels and {rank} spatial axes, but the batch-less shape is "
                f"{takes}; batch_dims says how many leading axes of the inputs are batch axes"
            )
        bias = np.zeros(self.weight.shape[0], self.weight.dtype) if self.bias is None else self.bias
        fields = (self.stride, self.padding, self.dilation)
        if rank == 1:
            one = [value if isinstance(value, str) else int(np.reshape(value, -1)[0]) for value in fields]
            node: nir.NIRNode = nir.Conv1d(None, self.weight, *one, self.groups, bias)
        else:
            node = nir.Conv2d(None, self.weight, *fields, self.groups, bias)
        if takes is not None:
            node.input_shape = takes[1] if rank == 1 else tuple(takes[1:])
        return node


@dataclass(frozen=True, slots=True)
class Elementwise(Recipe):
    """`scale * x + shift`, constants of a shape that can be broadcast to the input's."""

    scale: Array | None
    shift: Array | None

    def with_constants(self, scale: Array | None, shift: Array, site: Site) -> Elementwise | None:  # noqa: ARG002
        """The same, then multiplied and shifted by constants, where it adds something already."""
        if self.shift is None:
            return None
        if scale is None:
            return Elementwise(self.scale, np.asarray(self.shift + shift))
        before = scale if self.scale is None else self.scale * scale
        return Elementwise(np.asarray(before), np.asarray(self.shift * scale + shift))

    def node(self, site: Site) -> nir.NIRNode:
        """A Scale; an Affine where something is added, as a convolution of one tap where there are channels."""
        shape = site.shape()
        if self.shift is None:
            return nir.Scale(_full(1 if self.scale is None else self.scale, shape))
        shift = self.shift
        kind = shift.dtype if shift.dtype.kind == "f" else np.dtype(np.float32)
        scale = np.ones((), kind) if self.scale is None else self.scale
        if len(shape) in (2, 3):
            per_channel = (shape[0], *[1] * (len(shape) - 1))
            parts = [_reduced(np.asarray(part), per_channel, shape) for part in (scale, shift)]
            if parts[0] is not None and parts[1] is not None:
                weight = parts[0].astype(kind).reshape(shape[0], 1, *[1] * (len(shape) - 1))
                one = (1,) * (len(shape) - 1)
                conv = ConvRecipe(weight, parts[1].astype(kind).reshape(-1), one, (0,) * len(one), one, shape[0])
                return conv.node(site)
        if not shape:
            raise ExportError(f"{site.where}: a constant is added to a single number; NIR needs an axis to add along")
        factors = _full(scale, shape).astype(kind)
        weight = factors[..., None] * np.eye(shape[-1], dtype=kind)
        return nir.Affine(weight, _full(shift, shape).astype(kind))


def _full(part: Any, shape: Shape) -> Array:
    found = np.asarray(part)
    found = found if found.dtype.kind == "f" else found.astype(np.float32)
    return np.array(np.broadcast_to(found, shape))
