"""What holds of every program: results, state, order, edits, copies, and exporting again."""

from __future__ import annotations

import copy
import io
import os
import pickle
import random

import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from torch import nn
from torch._functorch.compile_utils import fx_graph_cse
from torch.export import Dim, ExportedProgram

from tests.properties.programs import WIDTH, Generated, Plan, plans
from tests.support.calling import assert_calls_alike
from tests.support.comparing import assert_same_gradients, assert_same_run, assert_same_state, capture
from tests.support.reordering import ORDERS, reorder
from unflatten import UnflattenedModule, export, info, unflatten

# The suite always tries the same programs; HYPOTHESIS_PROFILE=explore tries new ones, and many more.
settings.register_profile("suite", deadline=None, max_examples=30, print_blob=True, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
ARGS = (torch.linspace(-1, 2, 3 * WIDTH).view(3, WIDTH), torch.linspace(0.5, -1, 3 * WIDTH).view(3, WIDTH))


def model_of(plan: Plan, train: bool = False) -> Generated:
    torch.manual_seed(0)
    return Generated(plan).train(train)


def functional(program: ExportedProgram) -> ExportedProgram:
    """The program without mutation; torch 2.13 refuses some in which a written buffer has two names."""
    try:
        return program.run_decompositions({})
    except AssertionError:
        reject()


def codes(module: nn.Module) -> dict[str, str]:
    return {name: info(inner).code for name, inner in module.named_modules() if isinstance(inner, UnflattenedModule)}


@given(plans, st.booleans(), st.booleans())
def test_results_gradients_writes_and_state(plan: Plan, train: bool, decompose: bool) -> None:
    model = model_of(plan, train)
    program = capture(model, ARGS)
    if decompose:
        program = functional(program)
    nested = unflatten(program)
    info(nested).region[0].verify()
    assert_same_state(model, nested)
    reference: nn.Module = program.module() if decompose else copy.deepcopy(model)
    assert_same_run(reference, nested, ARGS)


@given(plans, st.booleans())
def test_gradients(plan: Plan, train: bool) -> None:
    model = model_of(plan, train)
    args = tuple(value.clone().requires_grad_() for value in ARGS)
    try:
        copy.deepcopy(model)(*args).sum().backward()
    except RuntimeError:  # the plan counts twice: what the first division needs is overwritten
        reject()
    assert_same_gradients(copy.deepcopy(model), unflatten(capture(model, ARGS)), args, rounded=True)


@given(plans, st.sampled_from(ORDERS), st.integers(0, 99), st.booleans())
def test_order_does_not_matter(plan: Plan, how: str, seed: int, train: bool) -> None:
    model = model_of(plan, train)
    expected, program = unflatten(capture(model, ARGS)), capture(model, ARGS)
    reorder(program, how, random.Random(seed))
    given_ = unflatten(program)
    assert codes(given_) == codes(expected)
    assert_same_run(expected, given_, ARGS)


@given(plans, st.integers(0, 99), st.floats(0, 1), st.booleans())
def test_edited_graphs_compute_what_they_say(plan: Plan, seed: int, share: float, merge: bool) -> None:
    model, draw = model_of(plan), random.Random(seed)
    program = functional(capture(model, ARGS))
    if merge:
        program.graph_module.graph = fx_graph_cse(program.graph_module.graph)
    for node in program.graph.nodes:
        if node.op == "call_function" and draw.random() < share:
            node.meta = {key: value for key, value in node.meta.items() if key == "val"}
    program.graph_module.recompile()
    nested = unflatten(program)
    assert_same_state(model, nested)
    assert_same_run(program.module(), nested, ARGS)


@given(plans)
def test_copies_run_alike(plan: Plan) -> None:
    nested = unflatten(capture(model_of(plan), ARGS))
    for twin in (copy.deepcopy(nested), pickle.loads(pickle.dumps(nested))):
        assert codes(twin) == codes(nested)
        assert_same_state(nested, twin)
        assert_same_run(copy.deepcopy(nested), twin, ARGS)


@given(plans)
def test_exported_again_it_is_the_same(plan: Plan) -> None:
    """Exporting once may change the order of calls, and which name of a module is used; then all is settled."""
    nested = unflatten(capture(model_of(plan), ARGS))
    again = unflatten(torch.export.export(nested, ARGS))
    settled = unflatten(torch.export.export(again, ARGS))
    assert codes(settled) == codes(again)
    assert_same_run(nested, settled, ARGS)


@given(plans, st.sampled_from(["as it is", "copied", "saved"]))
def test_recorded_calls(plan: Plan, how: str) -> None:
    model = model_of(plan)
    program = export(copy.deepcopy(model), ARGS)
    if how == "copied":
        program = copy.deepcopy(program)
    elif how == "saved":
        file = io.BytesIO()
        torch.export.save(program, file)
        program = torch.export.load(io.BytesIO(file.getvalue()))
    nested = unflatten(program)
    assert_same_state(model, nested)
    assert_same_run(copy.deepcopy(model), copy.deepcopy(nested), ARGS)
    assert_calls_alike(model, nested, ARGS)


@given(plans, st.integers(2, 9))
def test_dynamic_sizes(plan: Plan, size: int) -> None:
    model = model_of(plan)
    program = capture(model, ARGS, dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    args = (torch.randn(size, WIDTH), torch.randn(size, WIDTH))
    assert_same_run(copy.deepcopy(model), unflatten(program), args)
