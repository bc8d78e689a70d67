"""What a graph's metadata says of how it is meant to be run: the discretisation, under a key of this package's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

import nir

from nir_bridge.dynamics import PRESETS, Dynamics
from nir_bridge.errors import DynamicsError

KEY: Final = "nir_bridge"
"""What the package's own part of a graph's metadata is called."""


def noted(node: nir.NIRNode) -> Dynamics | None:
    """The rules that a graph was written for; None where it does not say.

    Raises:
        DynamicsError: what it says is no `Dynamics`.
    """
    own = node.metadata.get(KEY) if isinstance(getattr(node, "metadata", None), Mapping) else None
    held = own.get("dynamics") if isinstance(own, Mapping) else None
    if not isinstance(own, Mapping) or held is None:
        return None
    if isinstance(held, Mapping):
        kinds = {item.name: type(getattr(Dynamics(), item.name)) for item in fields(Dynamics)}
        return Dynamics().changed(
            **{name: kinds[name](value) if name in kinds else value for name, value in held.items()}
        )
    if not isinstance(held, str):
        raise DynamicsError(f"the graph's metadata has dynamics {held!r}; a preset's name or its fields are needed")
    dt = own.get("dt")
    return Dynamics.preset(held) if dt is None else Dynamics.preset(held, dt=float(dt))


def note(graph: nir.NIRGraph, dynamics: Dynamics) -> None:
    """Writes into a graph's metadata what rules it is written for; nothing for those that are taken anyway."""
    if dynamics == Dynamics():
        return
    own: dict[str, Any] = {"dynamics": {name: value for name, value in asdict(dynamics).items() if name != "dt"}}
    own["dynamics"]["dt"] = dynamics.dt
    for name, rules in PRESETS.items():
        if rules.changed(dt=dynamics.dt) == dynamics:
            own = {"dynamics": name, "dt": dynamics.dt}
            break
    graph.metadata = {**graph.metadata, KEY: own}
