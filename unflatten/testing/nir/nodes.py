"""Nodes of every type of NIR, for signals of a given shape.

Numbers are small multiples of powers of two and time constants multiples of `dt` by such, so that steps by Euler's
rule are exact in double precision: what differs is wrong, not rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import nir
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

Shape = tuple[int, ...]
DT: Final = 1e-4
"""The step, in seconds, that time constants are multiples of."""

GAINS: Final = (1.0, 0.5, 2.0, -1.0, 0.25, -0.5, 0.0)
BIASES: Final = (0.0, 0.5, 1.0, -0.25)
THRESHOLDS: Final = (0.5, 1.0, 0.25, 2.0)
LEVELS: Final = (0.0, -0.5, 0.125)
STEPS: Final = (4.0, 2.0, 8.0, 1.0)


@dataclass(frozen=True, eq=False)
class Block:
    """A node with the shapes that it takes and gives.

    Attributes:
        node: the node.
        takes, gives: batch-less shapes.
        inferred: whether the node itself doesn't say what it takes, so that something has to lead into it.
    """

    node: nir.NIRNode
    takes: Shape
    gives: Shape
    inferred: bool = False


Blocks = st.SearchStrategy[Block]


@cache  # what is drawn from again and again is made once
def numbers(shape: Shape, values: tuple[float, ...], scale: float = 1.0) -> st.SearchStrategy[NDArray[np.float64]]:
    """Arrays of some values."""
    return arrays(np.float64, shape, elements=st.sampled_from(values)).map(lambda array: np.asarray(array * scale))


def constants(kind: type[nir.NIRNode], shape: Shape) -> st.SearchStrategy[dict[str, Any]]:
    """The fields of a neuron."""
    return st.fixed_dictionaries(
        {name: numbers(shape, values, scale) for name, (values, scale) in _NEURONS[kind].items()}
    )


_TAU = (STEPS, DT)
_NEURONS: Final[Mapping[type[nir.NIRNode], Mapping[str, tuple[tuple[float, ...], float]]]] = {
    nir.I: {"r": (GAINS, 1.0)},
    nir.LI: {"tau": _TAU, "r": (GAINS, 4.0), "v_leak": (LEVELS, 1.0)},
    nir.IF: {"r": (GAINS, 1.0), "v_threshold": (THRESHOLDS, 1.0), "v_reset": (LEVELS, 1.0)},
    nir.LIF: {
        "tau": _TAU, "r": (GAINS, 4.0), "v_leak": (LEVELS, 1.0), "v_threshold": (THRESHOLDS, 1.0),
        "v_reset": (LEVELS, 1.0),
    },
    nir.CubaLI: {
        "tau_syn": _TAU, "tau_mem": _TAU, "r": (GAINS, 4.0), "v_leak": (LEVELS, 1.0), "w_in": (GAINS, 4.0),
    },
    nir.CubaLIF: {
        "tau_syn": _TAU, "tau_mem": _TAU, "r": (GAINS, 4.0), "v_leak": (LEVELS, 1.0), "v_threshold": (THRESHOLDS, 1.0),
        "v_reset": (LEVELS, 1.0), "w_in": (GAINS, 4.0),
    },
}  # fmt: skip


@st.composite
def neurons(draw: st.DrawFn, kind: type[nir.NIRNode], shape: Shape) -> Block:
    """Neurons of a type, with constants for each or, seldom, for all of them."""
    fewer = shape if shape[0] == 1 else shape[1:]  # an axis of one might be a batch that an exporter left in
    own = draw(st.sampled_from((shape, shape, shape, (1,) * len(shape), fewer)))
    return Block(kind(**draw(constants(kind, own))), shape, shape, inferred=own != shape)


@st.composite
def weights(draw: st.DrawFn, kind: type[nir.NIRNode], shape: Shape) -> Block:
    """`Linear` and `Affine`: to as many or another number of values."""
    out = draw(st.sampled_from((shape[-1], 1, 2)))
    fields = {"weight": draw(numbers((*shape[:-1], out, shape[-1]), GAINS))}
    if kind is nir.Affine:
        fields["bias"] = draw(numbers((*shape[:-1], out), BIASES))
    return Block(kind(**fields), shape, (*shape[:-1], out))


def scales(shape: Shape) -> Blocks:
    """`Scale`."""
    return numbers(shape, GAINS).map(lambda array: Block(nir.Scale(array), shape, shape))


def thresholds(shape: Shape) -> Blocks:
    """`Threshold`."""
    return numbers(shape, (*THRESHOLDS, *LEVELS)).map(lambda array: Block(nir.Threshold(array), shape, shape))


def delays(shape: Shape) -> Blocks:
    """`Delay`, of whole and of half steps."""
    whole = numbers(shape, (1.0, 0.0, 2.0, 3.0, 1.25), DT)
    return whole.map(lambda array: Block(nir.Delay(array), shape, shape))


@st.composite
def convolutions(draw: st.DrawFn, shape: Shape) -> Block:
    """`Conv1d` for signals of two axes, `Conv2d` for those of three."""
    rank = len(shape) - 1
    groups = draw(st.sampled_from([count for count in (1, 2) if shape[0] % count == 0]))
    kernel, dilation = [], []
    for size in shape[1:]:
        kernel.append(draw(st.integers(1, min(size, 3))))
        longest = 1 if kernel[-1] == 1 else (size - 1) // (kernel[-1] - 1)
        dilation.append(draw(st.integers(1, max(min(longest, 2), 1))))
    padding: Any = draw(st.sampled_from((0, 1, "valid", "same", (0, 1)[:rank] if rank > 1 else 2)))
    stride = (1,) * rank if padding == "same" else tuple(draw(st.integers(1, 2)) for _ in range(rank))
    out = draw(st.integers(1, 2)) * groups
    sizes = conv_sizes(shape[1:], kernel, stride, padding, dilation)
    known = draw(st.booleans())
    weight = draw(numbers((out, shape[0] // groups, *kernel), GAINS))
    bias = draw(numbers((out,), BIASES))
    kind = nir.Conv1d if rank == 1 else nir.Conv2d
    spread: Any = tuple(dilation) if rank > 1 else dilation[0]
    steps: Any = stride if rank > 1 else stride[0]
    whole: Any = shape[1:] if rank > 1 else shape[1]
    node = kind(whole if known else None, weight, steps, padding, spread, groups, bias)
    return Block(node, shape, (out, *sizes), inferred=not known)


def conv_sizes(sizes: Shape, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Shape:
    """The spatial sizes that a convolution gives."""
    if padding == "same":
        return tuple(sizes)
    pads = (0,) * len(sizes) if padding == "valid" else np.broadcast_to(padding, len(sizes))
    return tuple(
        int((size + 2 * pad - spread * (length - 1) - 1) // step + 1)
        for size, pad, spread, length, step in zip(sizes, pads, dilation, kernel, stride, strict=True)
    )


@st.composite
def pools(draw: st.DrawFn, kind: type[nir.NIRNode], shape: Shape) -> Block:
    """`SumPool2d` and `AvgPool2d`."""
    pads = draw(st.sampled_from(((0, 0), (1, 0), (1, 1))))
    kernel = tuple(
        draw(st.integers(max(2 * pad, 1), max(min(size + pad, 3), 2 * pad, 1)))
        for size, pad in zip(shape[1:], pads, strict=True)
    )
    kernel = tuple(min(length, size + 2 * pad) for length, size, pad in zip(kernel, shape[1:], pads, strict=True))
    stride = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    sizes = conv_sizes(shape[1:], kernel, stride, pads, (1, 1))
    node = kind(np.array(kernel), np.array(stride), np.array(pads))
    return Block(node, shape, (shape[0], *sizes), inferred=True)


@st.composite
def flattenings(draw: st.DrawFn, shape: Shape) -> Block:
    """`Flatten` of some axes or all."""
    start = draw(st.integers(0, len(shape) - 1))
    end = draw(st.integers(start, len(shape) - 1))
    gives = (*shape[:start], int(np.prod(shape[start : end + 1])), *shape[end + 1 :])
    signed = end - len(shape) if draw(st.booleans()) else end
    return Block(nir.Flatten({"input": np.array(shape)}, start, signed), shape, gives)


_MAKERS: Final[Mapping[type[nir.NIRNode], tuple[Callable[[Shape], bool], Callable[[Shape], Blocks]]]] = {
    nir.Linear: (lambda shape: len(shape) > 0, lambda shape: weights(nir.Linear, shape)),
    nir.Affine: (lambda shape: len(shape) > 0, lambda shape: weights(nir.Affine, shape)),
    nir.LIF: (lambda _: True, lambda shape: neurons(nir.LIF, shape)),
    nir.CubaLIF: (lambda _: True, lambda shape: neurons(nir.CubaLIF, shape)),
    nir.LI: (lambda _: True, lambda shape: neurons(nir.LI, shape)),
    nir.CubaLI: (lambda _: True, lambda shape: neurons(nir.CubaLI, shape)),
    nir.IF: (lambda _: True, lambda shape: neurons(nir.IF, shape)),
    nir.I: (lambda _: True, lambda shape: neurons(nir.I, shape)),
    nir.Scale: (lambda _: True, scales),
    nir.Threshold: (lambda _: True, thresholds),
    nir.Delay: (lambda _: True, delays),
    nir.Conv1d: (lambda shape: len(shape) == 2, convolutions),
    nir.Conv2d: (lambda shape: len(shape) == 3, convolutions),
    nir.SumPool2d: (lambda shape: len(shape) == 3, lambda shape: pools(nir.SumPool2d, shape)),
    nir.AvgPool2d: (lambda shape: len(shape) == 3, lambda shape: pools(nir.AvgPool2d, shape)),
    nir.Flatten: (lambda shape: len(shape) > 1, flattenings),
}  # fmt: skip

PRIMITIVES: Final = tuple(_MAKERS)
"""The types of nodes that there are strategies for: all of nir 1.0.8 but graphs and their ports."""


def takes(kind: type[nir.NIRNode], shape: Shape) -> bool:
    """Whether nodes of a type take signals of a shape."""
    return _MAKERS[kind][0](shape)


def nir_nodes(shape: Shape, kind: type[nir.NIRNode] | None = None) -> Blocks:
    """Nodes that take signals of a shape.

    Args:
        shape: batch-less.
        kind: the type of node; None for any.

    Raises:
        KeyError: there is no strategy for this type.

    Example:
        >>> from hypothesis import find
        >>> find(nir_nodes((2,), nir.Linear), lambda block: block.gives == (1,)).node.weight
        array([[1., 1.]])
    """
    if kind is not None:
        return _MAKERS[kind][1](shape)
    return st.one_of([make(shape) for fits, make in _MAKERS.values() if fits(shape)])
