"""Nested equals flat: results, writes, gradients, state, hierarchy, sizes; and the program is left alone."""

from __future__ import annotations

import contextlib
import copy

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.properties.common import functional, resized
from unflatten import info, unflatten
from unflatten.errors import DifferenceError, InputError
from unflatten.testing import (
    Features,
    ModuleDag,
    assert_same_gradients,
    assert_same_hierarchy,
    assert_same_outputs,
    assert_same_state,
    assert_unchanged,
    module_dags,
)


@given(module_dags(keyword_names=False), st.booleans(), st.booleans())
def test_results_writes_and_state(dag: ModuleDag, record: bool, decompose: bool) -> None:
    model = dag.model()
    program = functional(dag, record=record) if decompose else dag.export(record=record)
    with assert_unchanged(program):
        nested = unflatten(program)
        info(nested).region[0].verify()
        assert_same_state(model, nested)
        assert_same_outputs(model, nested, dag.args, dag.kwargs)


@settings(settings(), max_examples=3 * settings().max_examples)
@given(module_dags(Features.only("children", "mutation", "views"), depth=1, width=2, steps=8), st.booleans())
def test_writes(dag: ModuleDag, decompose: bool) -> None:
    program = functional(dag) if decompose else dag.export()
    assert_same_outputs(dag.model(), unflatten(program), dag.args, dag.kwargs)


@settings(settings(), max_examples=2 * settings().max_examples)
@given(module_dags(Features.only("children", "several_calls"), depth=1, width=2, steps=8))
def test_several_calls(dag: ModuleDag) -> None:
    assert_same_outputs(dag.model(), unflatten(dag.export()), dag.args, dag.kwargs)


PAIRS = """
import torch
from torch import nn


class Inner(nn.Module):
    def forward(self, x, y):
        return {results}


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x, y):
        return self.inner(x, y)[::-1]


build = Root
args = (torch.tensor([0.5, -1.5]), torch.tensor([-0.25, 3.0]))
kwargs = {{}}
dynamic_shapes = None
"""
RESULTS = st.lists(st.sampled_from(["x * 2", "y - x", "torch.relu(x)", "y + 1"]), min_size=2, unique=True)


@settings(settings(), max_examples=max(settings().max_examples // 2, 1))
@given(RESULTS, st.booleans())
def test_several_results(results: list[str], record: bool) -> None:
    dag = ModuleDag(PAIRS.format(results=", ".join(results)))
    assert_same_outputs(dag.model(), unflatten(dag.export(record=record)), dag.args, dag.kwargs)


@given(module_dags(Features.only("children", "leaves", "sharing", "ties"), steps=3))
def test_shared_modules(dag: ModuleDag) -> None:
    nested = unflatten(dag.export(record=True))
    assert_same_state(dag.model(), nested)
    assert_same_hierarchy(dag.model(), nested)
    assert_same_outputs(dag.model(), nested, dag.args, dag.kwargs)


@settings(settings(), max_examples=2 * settings().max_examples)
@given(module_dags(Features.only("children", "dropout", "training", "several_calls"), depth=1))
def test_random_numbers(dag: ModuleDag) -> None:
    assert_same_outputs(dag.model(), unflatten(dag.export()), dag.args, dag.kwargs)


@given(module_dags(), st.booleans())
def test_gradients(dag: ModuleDag, record: bool) -> None:
    try:
        assert_same_gradients(dag.model(), dag.model(), dag.args, dag.kwargs)
    except RuntimeError:  # what autograd needs is overwritten, in the model itself
        reject()
    program = dag.export(record=record)
    nested = unflatten(program)
    try:
        assert_same_gradients(dag.model(), nested, dag.args, dag.kwargs, rounded=True)
    except DifferenceError:  # torch 2.13 forgets some `no_grad` around a scan, so the flat program differs too
        with contextlib.suppress(RuntimeError):  # as above, in the flat program
            assert_same_gradients(copy.deepcopy(program.module()), nested, dag.args, dag.kwargs, rounded=True)
        reject()


@given(module_dags(training=False))
def test_hierarchy(dag: ModuleDag) -> None:
    assert_same_hierarchy(dag.model(), unflatten(dag.export(record=True)))


@settings(settings(), max_examples=2 * settings().max_examples)
@given(module_dags(Features.only("children", "dynamic"), depth=1), st.integers(2, 6))
def test_other_sizes(dag: ModuleDag, rows: int) -> None:
    program = dag.export()
    nested, args, kwargs = unflatten(program), resized(dag.args, rows), resized(dag.kwargs, rows)
    try:
        program.module()(*resized(dag.args, rows), **resized(dag.kwargs, rows))
    except (AssertionError, RuntimeError):
        try:
            nested(*args, **kwargs)
        except InputError:
            return
        raise
    assert_same_outputs(dag.model(), nested, args, kwargs)
