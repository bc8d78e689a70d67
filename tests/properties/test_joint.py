"""Views of graphs with a backward half: owners do not depend on the order, and never contradict the stacks."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from unflatten import GraphView
from unflatten.testing import JointGraph, joint_graphs, topological_orders
from unflatten.view.values import Owner, Phase


def owners(joint: JointGraph) -> dict[str, Owner]:
    """The owner of each node by its name."""
    return {node.name: owner for node, owner in GraphView(joint.graph_module).index.owners.items()}


@settings(max_examples=8)
@given(joint_graphs(), st.data())
def test_owners(joint: JointGraph, data: st.DataObject) -> None:
    modules = {name for name, _ in joint.dag.model().named_modules(remove_duplicate=False)}
    found = owners(joint)
    assert {str(owner.path) for owner in found.values()} <= modules
    first = next(node.name for node in joint.graph_module.graph.nodes if node.name.startswith("tangents"))
    assert found[first].phase is Phase.BACKWARD
    moved = copy.deepcopy(joint.graph_module)
    data.draw(topological_orders(moved)).apply(moved)
    assert owners(JointGraph(joint.dag, moved)) == found
