"""What passes do to a graph does not change what its modules compute and hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.common import functional
from unflatten import unflatten
from unflatten.testing import ModuleDag, assert_same_outputs, assert_same_state, graph_edits, module_dags


@settings(settings(), max_examples=max(settings().max_examples // 2, 1))
@given(module_dags(keyword_names=False), st.booleans(), st.booleans(), st.data())
def test_edited_graphs(dag: ModuleDag, record: bool, decompose: bool, data: st.DataObject) -> None:
    program = functional(dag, record=record) if decompose else dag.export(record=record)
    edited = data.draw(graph_edits(program)).edited(program)
    nested = unflatten(edited)
    assert_same_state(dag.model(), nested)
    assert_same_outputs(dag.model(), nested, dag.args, dag.kwargs)
