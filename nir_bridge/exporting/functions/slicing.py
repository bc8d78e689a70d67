"""Steps of a series: a model that loops over time takes its input apart and puts its outputs together."""

from __future__ import annotations

from nir_bridge.exporting.calls import Rule

SLICING: dict[str, Rule] = {}
