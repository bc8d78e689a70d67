"""Embeddings, alone and in bags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from unflatten.leaves.leaf import Leaf, Operator, Proposal
from unflatten.leaves.registry import register

_MODES = {0: "sum", 1: "mean", 2: "max"}


def _common(leaf: Leaf, found: Operator) -> dict[str, Any]:
    count, size = leaf.state["weight"].shape
    limit = leaf.find("embedding_renorm")
    return {
        "num_embeddings": count,
        "embedding_dim": size,
        "max_norm": limit["max_norm"] if limit else None,
        "norm_type": limit["norm_type"] if limit else 2.0,
        "scale_grad_by_freq": found["scale_grad_by_freq"],
        "sparse": found["sparse"],
    }


def _embedding(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("embedding")
    if found is not None and "weight" in leaf.state:
        padding = found["padding_idx"]
        yield Proposal({**_common(leaf, found), "padding_idx": None if padding == -1 else padding})


def _bag(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("embedding_bag")
    if found is None or "weight" not in leaf.state:
        return
    kwargs = {
        **_common(leaf, found),
        "mode": _MODES[found["mode"]],
        "include_last_offset": found["include_last_offset"],
        "padding_idx": found.arguments.get("padding_idx"),
    }
    indices, offsets, weights = found["indices"], found["offsets"], found["per_sample_weights"]
    given = leaf.given(indices, offsets)
    if len(given) == 2:
        yield Proposal(kwargs, given, {"per_sample_weights": weights} if weights is not None else {})
    else:  # rows of one tensor: what is a bag is computed
        yield Proposal(kwargs, leaf.inputs[:1])
        if len(leaf.inputs) == 2:
            yield Proposal(kwargs, leaf.inputs[:1], {"per_sample_weights": leaf.inputs[1]})
            yield Proposal(kwargs, leaf.inputs[1:], {"per_sample_weights": leaf.inputs[0]})


register(nn.Embedding, _embedding, ["embedding"])
register(nn.EmbeddingBag, _bag, ["embedding_bag"])
