"""Losses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from unflatten.leaves.leaf import Leaf, Proposal
from unflatten.leaves.registry import register

_REDUCTIONS = ("none", "mean", "sum")
_TWO = ("self", "target")

_LOSSES: dict[type[nn.Module], tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    nn.L1Loss: ("l1_loss", _TWO, ()),
    nn.MSELoss: ("mse_loss", _TWO, ()),
    nn.HuberLoss: ("huber_loss", _TWO, ("delta",)),
    nn.SmoothL1Loss: ("smooth_l1_loss", _TWO, ("beta",)),
    nn.SoftMarginLoss: ("soft_margin_loss", _TWO, ()),
    nn.MultiLabelMarginLoss: ("multilabel_margin_loss", _TWO, ()),
    nn.MultiMarginLoss: ("multi_margin_loss", _TWO, ("p", "margin")),
    nn.HingeEmbeddingLoss: ("hinge_embedding_loss", _TWO, ("margin",)),
    nn.CrossEntropyLoss: ("cross_entropy_loss", _TWO, ("ignore_index", "label_smoothing")),
    nn.NLLLoss: ("nll_loss_nd", _TWO, ("ignore_index",)),
    nn.BCELoss: ("binary_cross_entropy", _TWO, ()),
    nn.BCEWithLogitsLoss: ("binary_cross_entropy_with_logits", _TWO, ()),
    nn.PoissonNLLLoss: ("poisson_nll_loss", ("input", "target"), ("log_input", "full", "eps")),
    nn.CosineEmbeddingLoss: ("cosine_embedding_loss", ("input1", "input2", "target"), ("margin",)),
    nn.MarginRankingLoss: ("margin_ranking_loss", ("input1", "input2", "target"), ("margin",)),
    nn.TripletMarginLoss: (
        "triplet_margin_loss",
        ("anchor", "positive", "negative"),
        ("margin", "p", "eps", "swap"),
    ),
    nn.CTCLoss: (
        "ctc_loss",
        ("log_probs", "targets", "input_lengths", "target_lengths"),
        ("blank", "zero_infinity"),
    ),
}
"""For each class: the operator, the arguments that are the call's, and those that are the constructor's."""


def _weights(leaf: Leaf) -> Mapping[str, Any]:
    names = [name for name in ("weight", "pos_weight") if name in leaf.state]
    return {name: torch.empty(leaf.state[name].shape, device="meta") for name in names}


def _loss(leaf: Leaf, cls: type[nn.Module]) -> Iterator[Proposal]:
    name, given, parameters = _LOSSES[cls]
    found = leaf.find(name)
    if found is not None:
        kwargs = {parameter: found[parameter] for parameter in parameters}
        args = tuple(_argument(leaf, found[argument]) for argument in given)
        yield Proposal({**kwargs, "reduction": _REDUCTIONS[found["reduction"]], **_weights(leaf)}, args)


def _argument(leaf: Leaf, value: Any) -> Any:
    """An argument of the call: a value, or numbers as they are."""
    return tuple(value) if isinstance(value, tuple | list) else leaf.origin(value)


def _divergence(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("kl_div")
    if found is not None:
        reduction = "batchmean" if leaf.find("div") else _REDUCTIONS[found["reduction"]]
        args = tuple(_argument(leaf, found[name]) for name in _TWO)
        yield Proposal({"reduction": reduction, "log_target": found["log_target"]}, args)


def _soft_margins(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    for reduction, args in itertools.product(("mean", "none", "sum"), itertools.permutations(leaf.inputs, 2)):
        yield Proposal({"reduction": reduction, **_weights(leaf)}, args)


def _gaussian(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    limit = leaf.find("clamp")
    if limit is not None:
        choices = itertools.product(("mean", "none", "sum"), (False, True), itertools.permutations(leaf.inputs, 3))
        for reduction, full, args in choices:
            yield Proposal({"reduction": reduction, "full": full, "eps": limit["min"]}, args)


for _class, (_name, _, _) in _LOSSES.items():
    register(_class, _loss, [_name])
register(nn.KLDivLoss, _divergence, ["kl_div"])
register(nn.MultiLabelSoftMarginLoss, _soft_margins)
register(nn.GaussianNLLLoss, _gaussian)
