"""`Flatten`: axes `start_dim` to `end_dim` of the batch-less shape become one. Batch axes are left alone."""

from __future__ import annotations

import math

from torch import nn

from nir_bridge.errors import ShapeError
from nir_bridge.fields import Fields, Shape, Target, declared_shape
from nir_bridge.primitives.base import Primitive, mismatch


def _takes(fields: Fields) -> Shape | None:
    return declared_shape(fields, "input")


def _axes(fields: Fields, rank: int) -> tuple[int, int]:
    """The first and last of the axes, counted from the front."""
    axes = []
    for name in ("start_dim", "end_dim"):
        axis = fields.numbers(name, 1)[0]
        if not -rank <= axis < rank:
            raise fields.error(name, f"is {axis}, but the input has {rank} axes, the batch not counted", ShapeError)
        axes.append(axis % rank)
    if axes[0] > axes[1]:
        raise fields.error("start_dim", f"axis {axes[0]} comes after end_dim, axis {axes[1]}", ShapeError)
    return axes[0], axes[1]


def _gives(fields: Fields, given: Shape | None) -> Shape | None:
    wanted = _takes(fields)
    if given is not None and wanted is not None and given != wanted:
        raise mismatch(fields, "input_type", wanted, given)
    shape = given or wanted
    if not shape:
        return shape
    start, end = _axes(fields, len(shape))
    return (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


def _make(fields: Fields, given: Shape | None, _: Target) -> nn.Module:
    shape = given or _takes(fields)
    if shape is None:
        raise fields.error("input_type", "is missing, so batch axes can't be told apart; give the Input a shape")
    start, end = _axes(fields, len(shape))
    return nn.Flatten(start - len(shape), end - len(shape))


FLATTEN = Primitive(_takes, _gives, _make)
