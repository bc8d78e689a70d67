"""Activations, softmax among them."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from unflatten.leaves.leaf import Leaf, Operator, Proposal
from unflatten.leaves.registry import register
from unflatten.leaves.tables import Row, register_table


def _slopes(leaf: Leaf, _: Operator) -> int:
    return leaf.state["weight"].shape[0] if "weight" in leaf.state else 1


register_table(
    {
        nn.ReLU: Row("relu", inplace=True),
        nn.ReLU6: Row("hardtanh", inplace=True),
        nn.GELU: Row("gelu", {"approximate": "approximate"}),
        nn.SiLU: Row("silu", inplace=True),
        nn.Mish: Row("mish", inplace=True),
        nn.SELU: Row("selu", inplace=True),
        nn.ELU: Row("elu", {"alpha": "alpha"}, inplace=True),
        nn.CELU: Row("celu", {"alpha": "alpha"}, inplace=True),
        nn.GLU: Row("glu", {"dim": "dim"}),
        nn.LeakyReLU: Row("leaky_relu", {"negative_slope": "negative_slope"}, inplace=True),
        nn.PReLU: Row("prelu", {"num_parameters": _slopes}),
        nn.RReLU: Row("rrelu", {"lower": "lower", "upper": "upper"}, inplace=True),
        nn.Sigmoid: Row("sigmoid"),
        nn.LogSigmoid: Row("log_sigmoid"),
        nn.Tanh: Row("tanh"),
        nn.Softplus: Row("softplus", {"beta": "beta", "threshold": "threshold"}),
        nn.Softshrink: Row("softshrink", {"lambd": "lambd"}),
        nn.Hardshrink: Row("hardshrink", {"lambd": "lambd"}),
        nn.Hardtanh: Row("hardtanh", {"min_val": "min_val", "max_val": "max_val"}, inplace=True),
        nn.Hardsigmoid: Row("hardsigmoid", inplace=True),
        nn.Hardswish: Row("hardswish", inplace=True),
        nn.Threshold: Row("threshold", {"threshold": "threshold", "value": "value"}, inplace=True),
        nn.Softmax: Row("softmax", {"dim": "dim"}),
        nn.LogSoftmax: Row("log_softmax", {"dim": "dim"}),
    }
)


def _plain(_: Leaf, __: type[nn.Module]) -> Iterator[Proposal]:
    yield Proposal()


def _softmin(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("softmax")
    if found is not None:
        yield Proposal({"dim": found["dim"]})


register(nn.Tanhshrink, _plain, ["tanh"])
register(nn.Softsign, _plain, ["abs"])
register(nn.Softmax2d, _plain, ["softmax"])
register(nn.Softmin, _softmin, ["neg"])
