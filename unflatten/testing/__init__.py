"""Strategies and assertions for testing what changes graphs and modules; needs the `testing` extra.

What concerns NIR graphs is imported when it is asked for, so that `nir` is needed only then.
"""

from __future__ import annotations

import importlib
from typing import Any

from unflatten.errors import DifferenceError as DifferenceError
from unflatten.testing.comparing import Difference as Difference
from unflatten.testing.comparing import differences as differences
from unflatten.testing.dags.dag import ModuleDag as ModuleDag
from unflatten.testing.dags.strategies import Features as Features
from unflatten.testing.dags.strategies import module_dags as module_dags
from unflatten.testing.edits import EDITS as EDITS
from unflatten.testing.edits import Edit as Edit
from unflatten.testing.edits import Edits as Edits
from unflatten.testing.edits import graph_edits as graph_edits
from unflatten.testing.joints import JointGraph as JointGraph
from unflatten.testing.joints import joint_graphs as joint_graphs
from unflatten.testing.orders import Order as Order
from unflatten.testing.orders import topological_orders as topological_orders
from unflatten.testing.programs import assert_order_invariant as assert_order_invariant
from unflatten.testing.programs import assert_reexport_fixpoint as assert_reexport_fixpoint
from unflatten.testing.programs import assert_unchanged as assert_unchanged
from unflatten.testing.same import assert_same_gradients as assert_same_gradients
from unflatten.testing.same import assert_same_hierarchy as assert_same_hierarchy
from unflatten.testing.same import assert_same_outputs as assert_same_outputs
from unflatten.testing.same import assert_same_state as assert_same_state
from unflatten.testing.trees import assert_bypass_equivalent as assert_bypass_equivalent
from unflatten.testing.trees import assert_state_round_trip as assert_state_round_trip
from unflatten.testing.trees import assert_swappable as assert_swappable
from unflatten.testing.trees import bypass_sets as bypass_sets

_NIR = (
    "assert_nir_order_invariant",
    "assert_nir_round_trip",
    "assert_split_invariant",
    "dynamics",
    "graph_code",
    "graph_differences",
    "nir_graphs",
    "nir_nodes",
    "node_names",
    "reordered",
    "series",
    "states",
)


def __getattr__(name: str) -> Any:
    if name in _NIR:
        return getattr(importlib.import_module("unflatten.testing.nir"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NIR})
