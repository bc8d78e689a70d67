"""What a graph's metadata says of how it is meant to be run: the discretisation, under a key of this package's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import nir

from nir_bridge.dynamics import PRESETS, Dynamics
from nir_bridge.errors import DynamicsError, NodeError

KEY: Final = "nir_bridge"
"""What the package's own part of a graph's metadata is called."""


def metadata_of(node: nir.NIRNode, label: str) -> Mapping[str, Any]:
    """The metadata of a node or a graph; empty where it has none.

    Raises:
        NodeError: they are no mapping.
    """
    held = getattr(node, "metadata", None)
    if held is None:
        return {}
    if not isinstance(held, Mapping):
        raise NodeError(f"{type(node).__name__} {label!r}, field 'metadata': is {held!r}; a dict is needed")
    return held


def noted(node: nir.NIRNode) -> Dynamics | None:
    """The rules that a graph was written for; None where it does not say.

    Raises:
        DynamicsError: what it says is no `Dynamics`.
    """
    own = node.metadata.get(KEY) if isinstance(getattr(node, "metadata", None), Mapping) else None
    held = own.get("dynamics") if isinstance(own, Mapping) else None
    if not isinstance(own, Mapping) or held is None:
        return None
    try:
        return _rules(held, own.get("dt"))
    except (TypeError, ValueError) as error:
        raise DynamicsError(
            f"the graph's metadata has dynamics {held!r}; a preset's name or its fields are needed: {error}"
        ) from error


def _rules(held: Any, dt: Any) -> Dynamics:
    if not isinstance(held, Mapping):
        return Dynamics.preset(held) if dt is None else Dynamics.preset(held, dt=float(dt))
    kinds = {item.name: type(getattr(Dynamics(), item.name)) for item in fields(Dynamics)}
    return Dynamics().changed(**{name: kinds[name](value) if name in kinds else value for name, value in held.items()})


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
    _add(graph, own)


def note_order(graph: nir.NIRGraph) -> None:
    """Notes the order of a graph's inputs and outputs in its metadata, where it is not that of their names."""
    for key, kind in (("inputs", nir.Input), ("outputs", nir.Output)):
        names = [name for name, node in graph.nodes.items() if isinstance(node, kind)]
        if names != sorted(names):
            _add(graph, {key: json.dumps(names)})


def ordered(graph: nir.NIRGraph, kind: type[nir.NIRNode], names: Sequence[str]) -> list[str]:
    """Names of Input or Output nodes in the order that the graph's metadata notes, those it does not by name."""
    own = graph.metadata.get(KEY) if isinstance(getattr(graph, "metadata", None), Mapping) else None
    held = own.get("outputs" if kind is nir.Output else "inputs") if isinstance(own, Mapping) else None
    try:
        first = json.loads(held) if isinstance(held, str) else []
    except ValueError:
        first = []
    place = {name: at for at, name in enumerate(first) if isinstance(name, str)}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def _add(graph: nir.NIRGraph, own: Mapping[str, Any]) -> None:
    noted_before = metadata_of(graph, "")
    held = noted_before.get(KEY)
    graph.metadata = {**noted_before, KEY: {**(held if isinstance(held, Mapping) else {}), **own}}
