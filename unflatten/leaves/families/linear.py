"""Linear maps."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from unflatten.leaves.leaf import Leaf, Proposal
from unflatten.leaves.registry import register


def _linear(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    if "weight" in leaf.state and len(leaf.state["weight"].shape) == 2:
        out, size = leaf.state["weight"].shape
        yield Proposal({"in_features": size, "out_features": out, "bias": "bias" in leaf.state})


def _bilinear(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    if "weight" in leaf.state and len(leaf.state["weight"].shape) == 3:
        out, first, second = leaf.state["weight"].shape
        sizes = {"in1_features": first, "in2_features": second, "out_features": out}
        yield Proposal({**sizes, "bias": "bias" in leaf.state})


register(NonDynamicallyQuantizableLinear, _linear)
register(nn.Linear, _linear, ["linear"])
register(nn.Bilinear, _bilinear, ["bilinear"])
