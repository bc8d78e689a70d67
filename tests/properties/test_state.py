"""What a result holds survives everything: loading, saving, copying, pickling."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.common import codes
from unflatten import unflatten
from unflatten.testing import ModuleDag, assert_same_outputs, assert_same_state, assert_state_round_trip, module_dags


@given(module_dags(), st.booleans())
def test_copies_and_files(dag: ModuleDag, record: bool) -> None:
    assert_state_round_trip(unflatten(dag.export(record=record)), dag.args, dag.kwargs)


@given(module_dags(), st.booleans())
def test_state_dicts_go_both_ways(dag: ModuleDag, copy_state: bool) -> None:
    model, nested = dag.model(), unflatten(dag.export(), copy_state=copy_state)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5).add_(0.25)
    nested.load_state_dict(model.state_dict(), strict=True)
    assert_same_state(model, nested)
    assert_same_outputs(model, nested, dag.args, dag.kwargs)
    fresh = dag.model()
    fresh.load_state_dict(nested.state_dict(), strict=True)
    assert_same_state(nested, fresh)


@given(module_dags())
def test_state_is_the_programs_own(dag: ModuleDag) -> None:
    program = dag.export()
    for name, parameter in unflatten(program).named_parameters():
        held = program.state_dict[name]
        assert parameter.data_ptr() == held.data_ptr(), name
        assert parameter.requires_grad is held.requires_grad


@given(module_dags(), st.booleans())
def test_two_results_of_a_program_do_not_meet(dag: ModuleDag, record: bool) -> None:
    program = dag.export(record=record)
    nested, other = unflatten(program), unflatten(program)
    assert codes(nested) == codes(other)
    nested(*dag.args, **dag.kwargs)
    assert_same_outputs(dag.model(), other, dag.args, dag.kwargs)
