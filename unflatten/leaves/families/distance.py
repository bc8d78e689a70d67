"""Distances and similarities of two tensors."""

from __future__ import annotations

from torch import nn

from unflatten.leaves.tables import Row, register_table

register_table(
    {
        nn.CosineSimilarity: Row("cosine_similarity", {"dim": "dim", "eps": "eps"}),
        nn.PairwiseDistance: Row("pairwise_distance", {"p": "p", "eps": "eps", "keepdim": "keepdim"}),
    }
)
