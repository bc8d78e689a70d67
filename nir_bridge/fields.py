"""Fields of NIR nodes as tensors, numbers and shapes, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nir
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nir_bridge.dynamics import Dynamics
from nir_bridge.errors import NodeError
from nir_bridge.surrogate import Slope

Shape = tuple[int, ...]
_LARGEST = 2**31
"""No axis is as long."""


@dataclass(frozen=True, slots=True)
class Target:
    """What modules are made for.

    Attributes:
        device, dtype: of parameters and buffers.
        dynamics: how steps are taken.
        slope: the gradient of spikes.
        learn_dynamics: whether the constants of neurons are trained.
    """

    device: torch.device
    dtype: torch.dtype
    dynamics: Dynamics
    slope: Slope
    learn_dynamics: bool


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one node, read with errors that name it.

    Attributes:
        label: the node's name, as messages show it.
        node: the node.
    """

    label: str
    node: nir.NIRNode

    def error(self, field: str, problem: str, kind: type[NodeError] = NodeError) -> NodeError:
        """An error about a field."""
        return kind(f"{type(self.node).__name__} {self.label!r}, field {field!r}: {problem}")

    def raw(self, field: str) -> Any:
        """The value as the node has it."""
        if not hasattr(self.node, field):
            raise self.error(field, "the node has no such field")
        return getattr(self.node, field)

    def array(self, field: str) -> NDArray[Any]:
        """A field as an array of numbers, in the machine's own layout.

        Raises:
            NodeError: it holds no real numbers.
        """
        value = self.raw(field)
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise self.error(field, f"is no array: {error}") from error
        if array.dtype.kind not in "fiub":
            raise self.error(field, f"holds {array.dtype} values; real numbers are needed")
        if array.dtype.kind == "f" and array.dtype.itemsize not in (2, 4, 8):
            array = array.astype(np.float64)
        return np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)

    def shape(self, field: str) -> Shape:
        """The shape of a field, whatever it holds.

        Raises:
            NodeError: it is no array.
        """
        try:
            shape: Shape = np.shape(self.raw(field))
        except ValueError as error:
            raise self.error(field, f"is no array: {error}") from error
        return shape

    def finite(self, field: str) -> NDArray[Any]:
        """A field as an array without NaN.

        Raises:
            NodeError: some of it is NaN.
        """
        array = self.array(field)
        bad = np.argwhere(np.isnan(array)) if array.dtype.kind == "f" else np.empty((0, array.ndim))
        if len(bad):
            raise self.error(field, f"is NaN at {_where(bad)}; replace it before importing")
        return array

    def positive(self, field: str) -> NDArray[Any]:
        """A field as an array of positive finite numbers.

        Raises:
            NodeError: some of it is not.
        """
        array = self.finite(field)
        bad = np.argwhere(~((array > 0) & np.isfinite(array)))
        if len(bad):
            value = array[tuple(bad[0])]
            raise self.error(field, f"is {value} at {_where(bad)}; a time constant has to be positive and finite")
        return array

    def numbers(self, field: str, count: int) -> Shape:
        """A field as `count` whole numbers; one number stands for all.

        Raises:
            NodeError: it is something else.
        """
        try:
            array = np.asarray(self.raw(field))
        except ValueError as error:
            raise self.error(field, f"is no array: {error}") from error
        whole = array.dtype.kind in "iub" or (
            array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.floor(array))))
        )
        if not whole or array.size not in (1, count):
            raise self.error(field, f"is {self.raw(field)!r}; give one whole number or {count}")
        values = [int(value) for value in array.reshape(-1)]
        return tuple(values * count if len(values) == 1 else values)


def _where(bad: NDArray[Any]) -> str:
    first = tuple(int(at) for at in bad[0])
    index = f"index {first}" if first else "its only entry"
    return f"{index} and {len(bad) - 1} more" if len(bad) > 1 else index


def to_tensor(array: NDArray[Any], target: Target) -> Tensor:
    """A tensor of its own with the values of an array."""
    if target.device.type == "meta":
        return torch.empty(array.shape, dtype=target.dtype, device="meta")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.float64)
    return torch.from_numpy(array).to(device=target.device, dtype=target.dtype, copy=True)


def parameter(array: NDArray[Any], target: Target) -> nn.Parameter:
    """A trained weight with the values of an array."""
    return nn.Parameter(to_tensor(array, target))


def hold_constants(module: nn.Module, arrays: Mapping[str, NDArray[Any]], target: Target) -> None:
    """Puts the constants of a neuron into its module: buffers, or parameters where they are learned."""
    for name, array in arrays.items():
        tensor = to_tensor(array, target)
        if target.learn_dynamics:
            module.register_parameter(name, nn.Parameter(tensor))
        else:
            module.register_buffer(name, tensor)


def declared_shape(fields: Fields, side: str) -> Shape | None:
    """The shape that a node declares; None where it declares none.

    Args:
        fields: the node.
        side: `"input"` or `"output"`.

    Raises:
        NodeError: what it declares can't be a shape.
    """
    types = getattr(fields.node, f"{side}_type", None)
    if types is not None and not isinstance(types, Mapping):
        raise fields.error(f"{side}_type", f"is {types!r}; a dict is needed: {{{side!r}: np.array(shape)}}")
    declared = types.get(side) if isinstance(types, Mapping) else None
    if declared is None:
        return None
    try:
        array = np.asarray(declared).reshape(-1)
    except ValueError:
        array = np.array(["no array"])
    if array.dtype.kind in "OSU" and all(size is None for size in array.tolist()):
        return None
    if array.dtype.kind in "iuf" and all(0 <= size < _LARGEST and size == int(size) for size in array.tolist()):
        return tuple(int(size) for size in array)
    raise fields.error(f"{side}_type", f"declares {declared!r}; whole numbers are needed, the sizes of the axes")
