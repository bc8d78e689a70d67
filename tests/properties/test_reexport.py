"""Exporting a result again settles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unflatten import unflatten
from unflatten.testing import ModuleDag, assert_reexport_fixpoint, module_dags


@given(module_dags(), st.booleans())
def test_exporting_again_is_a_fixpoint(dag: ModuleDag, record: bool) -> None:
    nested = unflatten(dag.export(record=record))
    assert_reexport_fixpoint(nested, dag.args, dag.kwargs, dynamic_shapes=dag.dynamic_shapes)
