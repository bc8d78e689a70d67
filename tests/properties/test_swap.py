"""A module's place takes the original, and a module taken alone takes the original's calls."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.common import paths, saved
from tests.support.calling import assert_calls_alike
from unflatten import swap, unflatten
from unflatten.testing import ModuleDag, assert_same_outputs, assert_same_state, assert_swappable, module_dags


@given(module_dags(), st.sampled_from(["as it is", "copied", "saved"]))
def test_originals_fit(dag: ModuleDag, how: str) -> None:
    program = dag.export(record=True)
    if how == "copied":
        program = copy.deepcopy(program)
    elif how == "saved":
        program = saved(program)
    nested = unflatten(program)
    assert_same_state(dag.model(), nested)
    assert_swappable(dag.model(), nested, dag.args, dag.kwargs)


@given(module_dags(mutation=False, dropout=False, higher_order=False))
def test_recorded_calls(dag: ModuleDag) -> None:
    assert_calls_alike(dag.model(), unflatten(dag.export(record=True)), dag.args, dag.kwargs)


@given(module_dags(), st.data())
def test_swapping_a_module_for_a_copy_and_back_changes_nothing(dag: ModuleDag, data: st.DataObject) -> None:
    program = dag.export()
    nested, fresh = unflatten(program), unflatten(program)
    names = paths(nested)
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    twin = copy.deepcopy(nested.get_submodule(name))
    before = swap(nested, name, twin)
    assert before not in set(nested.modules())
    assert_same_outputs(dag.model(), copy.deepcopy(nested), dag.args, dag.kwargs)
    assert swap(nested, name, before) is twin
    assert_same_state(fresh, nested)
    assert_same_outputs(fresh, nested, dag.args, dag.kwargs)
