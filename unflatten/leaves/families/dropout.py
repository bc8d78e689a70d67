"""Dropout in its kinds."""

from __future__ import annotations

from torch import nn

from unflatten.leaves.tables import Row, register_table

register_table(
    {
        nn.Dropout: Row("dropout", {"p": "p"}, inplace=True),
        nn.AlphaDropout: Row("alpha_dropout", {"p": "p"}, inplace=True),
        nn.FeatureAlphaDropout: Row("feature_alpha_dropout", {"p": "p"}, inplace=True),
        nn.Dropout1d: Row("feature_dropout", {"p": "p"}, inplace=True),
        nn.Dropout2d: Row("feature_dropout", {"p": "p"}, inplace=True),
        nn.Dropout3d: Row("feature_dropout", {"p": "p"}, inplace=True),
    }
)
