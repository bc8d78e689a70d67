"""The order of operators does not matter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.common import functional
from unflatten.testing import ModuleDag, assert_order_invariant, module_dags, topological_orders


@given(module_dags(keyword_names=False), st.booleans(), st.booleans(), st.data())
def test_order_does_not_matter(dag: ModuleDag, record: bool, decompose: bool, data: st.DataObject) -> None:
    program = functional(dag, record=record) if decompose else dag.export(record=record)
    order = data.draw(topological_orders(program))
    assert_order_invariant(program, dag.args, dag.kwargs, orders=[order])
