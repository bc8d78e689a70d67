"""Owners written on nodes as plain data: by `record`, and for nodes that are made in the name of another.

They stand in the metadata, so that copies of the graph have them too.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from unflatten.paths import ModuleCall, ModulePath, Scope
from unflatten.view.values import Phase

KEY = "unflatten_scope"
MADE = "unflatten_made"
"""Metadata of nodes that a pass made: autograd never saw them."""


def read_origin(found: Any) -> tuple[Scope, Phase | None]:
    """What an owner that was written says."""
    calls, phase = found
    scope = tuple(ModuleCall(ModulePath(tuple(names)), index, type_name=kind) for names, index, kind in calls)
    return scope, Phase(phase) if phase else None


def write_origin(node: fx.Node, scope: Scope, phase: Phase | None) -> None:
    """Writes an owner on a node; without a phase, dataflow tells that."""
    calls = tuple((call.path.names, call.index, call.type_name) for call in scope)
    node.meta[KEY] = (calls, phase.value if phase else "")
