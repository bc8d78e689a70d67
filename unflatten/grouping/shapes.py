"""Sizes that operators use as numbers: computed where they are needed, not handed from module to module.

Export computes each dynamic size once, wherever it is met first, and merges equal expressions across
modules. Modules that share nothing but a batch size would then hand numbers to each other. So operators
that only compute with sizes *float*: they have no owner, and every call that needs one computes it from a
tensor that it has anyway, `x.size(0) - 1`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from unflatten import _torch
from unflatten.flat.operators import Order, facts_of
from unflatten.flat.values import FlatNode, Value

_SIZE = torch.ops.aten.sym_size.int
_NUMBER = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
_ARITHMETIC = {operator.__name__, "_operator", math.__name__}


def floating_nodes(nodes: Iterable[FlatNode]) -> frozenset[FlatNode]:
    """The operators that compute numbers from sizes of tensors and nothing else."""
    floating: set[FlatNode] = set()
    for node in nodes:
        if isinstance(node.meta.get("val"), _NUMBER) and (
            is_size(node) or (_is_arithmetic(node) and all(value in floating for value in node.operands))
        ):
            floating.add(node)
    return frozenset(floating)


def is_size(node: FlatNode) -> bool:
    """Whether a node reads one size of a tensor."""
    return node.target is _SIZE


def _is_arithmetic(node: FlatNode) -> bool:
    if not node.operands or facts_of(node.target).order is not Order.FREE:
        return False
    module = getattr(node.target, "__module__", "")
    return module in _ARITHMETIC or getattr(node.target, "__name__", "").lstrip("_").startswith("sym_")


def size_expression(node: FlatNode) -> Any:
    """What a number is symbolically; None where it is not symbolic."""
    return _torch.symbolic_expression(node.meta.get("val"))


def sizes(value: Value) -> Iterator[tuple[Any, int]]:
    """The symbolic sizes of a tensor, each with its dimension."""
    tensor = value.meta.get("val")
    if isinstance(tensor, torch.Tensor):
        for dimension, size in enumerate(tensor.shape):
            expression = _torch.symbolic_expression(size)
            if expression is not None:
                yield expression, dimension
