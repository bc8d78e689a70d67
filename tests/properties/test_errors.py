"""A damaged argument gets an error of this package that names the place, and leaves everything as it was."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import ExportedProgram

import unflatten
from tests.properties.common import codes
from unflatten.errors import InputError, RewriteError, UnflattenError
from unflatten.testing import (
    Edits,
    ModuleDag,
    Order,
    assert_same_outputs,
    assert_same_state,
    assert_unchanged,
    bypass_sets,
    graph_edits,
    module_dags,
)

NONSENSE: list[Any] = [None, 3, "text", nn.ReLU(), object()]
FEW = settings(settings(), max_examples=max(settings().max_examples // 3, 1))
names = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=8).map(lambda text: f"{text}?")


@given(st.sampled_from(NONSENSE))
def test_what_is_no_program(thing: Any) -> None:
    with pytest.raises(UnflattenError, match=type(thing).__name__):
        unflatten.unflatten(thing)


@FEW
@given(module_dags(), names, st.data())
def test_paths_and_nodes_that_are_not_there(dag: ModuleDag, name: str, data: st.DataObject) -> None:
    program = dag.export()
    nested = unflatten.unflatten(program)
    before, state = codes(nested), copy.deepcopy(nested)
    inner = data.draw(st.sampled_from(sorted(dict(nested.named_modules()))))
    path = f"{inner}.{name}" if inner else name
    graph = program.graph_module
    wrong: list[Callable[[], Any]] = [
        lambda: unflatten.swap(nested, path, nn.ReLU()),
        lambda: unflatten.bypass(nested, path),
        lambda: unflatten.restore(nested, path),
        lambda: unflatten.bypass_node(graph, path),
        lambda: unflatten.swap_node(graph, path, torch.relu),
    ]
    with assert_unchanged(program):
        for call in wrong:
            with pytest.raises(RewriteError) as caught:
                call()
            assert repr(path)[1:-1] in str(caught.value)  # a message shows it as Python would
    assert codes(nested) == before
    assert_same_state(state, nested)


@FEW
@given(module_dags(), st.sampled_from(NONSENSE[:3]), st.data())
def test_what_is_no_module(dag: ModuleDag, thing: Any, data: st.DataObject) -> None:
    nested = unflatten.unflatten(dag.export())
    inner = [name for name, _ in nested.named_modules() if name]
    if inner:
        with pytest.raises(RewriteError, match=type(thing).__name__):
            unflatten.swap(nested, data.draw(st.sampled_from(inner)), thing)


@FEW
@given(module_dags(pytrees=False), st.sampled_from(["too few", "too many", "wide", "flat"]))
def test_arguments_that_do_not_fit(dag: ModuleDag, damage: str) -> None:
    nested = unflatten.unflatten(dag.export())
    x = dag.args[0]
    args = {
        "too few": (),
        "too many": (*dag.args, *dag.args, *dag.args),
        "wide": (torch.ones(3, 5), *dag.args[1:]),
        "flat": (x[0], *dag.args[1:]),
    }[damage]
    state = copy.deepcopy(nested)
    try:
        nested(*args, **dag.kwargs)
    except InputError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert damage == "too many" or "x" in message
        assert_same_state(state, nested)
    else:  # nothing is computed from it
        assert damage in ("wide", "flat")
        assert_same_outputs(dag.model(), state, args, dag.kwargs)


def lose_state(program: ExportedProgram, fqn: str) -> None:
    del program.state_dict[fqn]


@FEW
@given(module_dags(), st.data())
def test_programs_that_lost_state(dag: ModuleDag, data: st.DataObject) -> None:
    program = dag.export()
    held = sorted(spec.target for spec in program.graph_signature.input_specs if spec.target in program.state_dict)
    if held:
        fqn = data.draw(st.sampled_from(held))
        lose_state(program, fqn)
        with pytest.raises(UnflattenError, match=fqn.rpartition(".")[2]):
            unflatten.unflatten(program)


@FEW
@given(module_dags(), st.data())
def test_programs_in_an_impossible_order(dag: ModuleDag, data: st.DataObject) -> None:
    program = dag.export()
    nodes = [node for node in program.graph.nodes if node.op == "call_function" and node.users]
    nodes = [node for node in nodes if any(user.op == "call_function" for user in node.users)]
    if nodes:
        node = data.draw(st.sampled_from(nodes))
        user = next(user for user in node.users if user.op == "call_function")
        user.append(node)
        with pytest.raises(UnflattenError) as caught:
            unflatten.unflatten(program)
        assert node.name in str(caught.value)


@given(names)
def test_the_testing_tools_too(name: str) -> None:
    program = torch.export.export(nn.ReLU(), (torch.ones(1),))
    with pytest.raises(UnflattenError, match="feature"):
        module_dags(**{name: True})  # type: ignore[arg-type]
    with pytest.raises(UnflattenError, match="edit"):
        graph_edits(program, names=(name,))
    with pytest.raises(UnflattenError, match="operators"):
        Order("any", (name,)).apply(program)
    assert Edits(()).edited(program).graph_module.code == program.graph_module.code
    assert bypass_sets(nn.ReLU()) is not None
