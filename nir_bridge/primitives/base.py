"""What is known of a NIR primitive: the shapes that it takes and gives, and how its module is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from nir_bridge.errors import ShapeError
from nir_bridge.fields import Fields, Shape, Target


@dataclass(frozen=True, slots=True)
class Primitive:
    """One type of node.

    Attributes:
        takes: the shape that a node takes, batch-less; None where it takes several.
        gives: the shape that it gives for a shape that comes in; None where that is not known.
        make: its module, for a shape that comes in.
    """

    takes: Callable[[Fields], Shape | None]
    gives: Callable[[Fields, Shape | None], Shape | None]
    make: Callable[[Fields, Shape | None, Target], nn.Module]


def mismatch(fields: Fields, field: str, wanted: object, given: Shape) -> ShapeError:
    """The error for an input of the wrong shape."""
    text = f"takes inputs of shape {wanted}, but gets {given}"
    error = fields.error(field, f"{text}; correct the field, or the node in front of it", ShapeError)
    return error if isinstance(error, ShapeError) else ShapeError(str(error))


def field_shape(fields: Fields, field: str) -> Shape | None:
    """The shape of a field; None for a single number, which fits any input."""
    shape: Shape = fields.shape(field)
    return shape or None


def fits(own: Shape, given: Shape) -> bool:
    """Whether constants can be broadcast to an input, so that the output has its shape."""
    return len(own) <= len(given) and all(a in (1, b) for a, b in zip(own[::-1], given[::-1], strict=False))


def elementwise(fields: Fields, field: str, given: Shape | None) -> Shape | None:
    """The shape that a node gives that works element by element.

    Raises:
        ShapeError: its constants can't be broadcast to the input.
    """
    own = field_shape(fields, field)
    if own is None or given is None:
        return given if own is None else own
    if not fits(own, given):
        raise mismatch(fields, field, own, given)
    return given
