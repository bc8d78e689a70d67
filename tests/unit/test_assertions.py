"""What the assertions of `unflatten.testing` see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from unflatten import export, unflatten
from unflatten.errors import DifferenceError, ProgramError
from unflatten.testing import (
    assert_nir_round_trip,
    assert_order_invariant,
    assert_reexport_fixpoint,
    assert_same_hierarchy,
    assert_same_outputs,
    assert_same_state,
    assert_swappable,
    assert_unchanged,
)
from unflatten.testing.nir.comparing import graph_differences
from unflatten.testing.nir.failing import check_graph

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def test_a_module_at_two_names_is_one() -> None:
    shared = nn.ReLU()
    both = nn.Sequential(shared, shared)
    assert_same_hierarchy(both, both)
    with pytest.raises(DifferenceError, match="modules at several names, number 0"):
        assert_same_hierarchy(both, nn.Sequential(nn.ReLU(), nn.ReLU()))


class Plain(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def nested(function: Callable[..., Any], x: torch.Tensor = X) -> nn.Module:
    return unflatten(export(Plain(function), (x,)))


def linear(after: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), after)


def test_hierarchies_that_differ() -> None:
    with pytest.raises(
        DifferenceError, match=r"- the class \(module '1'\)\n      expected .*\.ReLU\n      given    .*\.Tanh"
    ):
        assert_same_hierarchy(linear(nn.ReLU()), linear(nn.Tanh()))
    with pytest.raises(
        DifferenceError, match=r"- the code .*\n      expected return torch.sin\(x\)\n      given    return torch.cos"
    ):
        assert_same_hierarchy(nested(torch.sin), nested(torch.cos))
    with pytest.raises(
        DifferenceError, match=r"- the calls, number 0 .*\n      expected .*\[2, 4\]\n      given    .*\[1, 4\]\n"
    ):
        assert_same_hierarchy(nested(torch.sin), nested(torch.sin, X[:1]))


def test_outputs_that_differ_are_followed_to_where_they_part() -> None:
    with pytest.raises(DifferenceError, match=r"- output \(module 'the root', node cos\)"):
        assert_same_outputs(nested(torch.sin), nested(torch.cos), (X,))
    other = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with pytest.raises(DifferenceError, match=r"- output \(module '0'\)"):
        assert_same_outputs(linear(nn.ReLU()), other, (X,))
    with pytest.raises(DifferenceError, match=r"- output \(module '1'\)"):
        assert_same_outputs(linear(nn.ReLU()), linear(nn.Tanh()), (X,))


def test_states_that_differ() -> None:
    with pytest.raises(DifferenceError, match="the keys of the state dict"):
        assert_same_state(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    with pytest.raises(DifferenceError, match=r"state\['weight'\]"):
        assert_same_state(linear(nn.ReLU())[0], nn.Linear(4, 4))  # type: ignore[index]


def in_metadata(program: ExportedProgram) -> None:
    program.graph.output_node().meta["seen"] = 1


def in_state(program: ExportedProgram) -> None:
    program.state_dict["0.weight"].data.add_(1)


def in_constants(program: ExportedProgram) -> None:
    program.constants["more"] = torch.ones(1)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (in_metadata, r"- node output \(node output\)\n.*\{\}.*\n .*\{'seen': '1'\}"),
        (in_state, r"- state 0\.weight\n"),
        (in_constants, r"- constant more\n      expected nothing\n"),
    ],
)
def test_programs_that_were_changed(change: Callable[[ExportedProgram], None], named: str) -> None:
    with (
        pytest.raises(DifferenceError, match=named),
        assert_unchanged(export(linear(nn.ReLU()), (X,))) as program,
    ):
        change(program)


def test_a_program_without_example_inputs() -> None:
    program = export(linear(nn.ReLU()), (X,))
    program._example_inputs = None
    with pytest.raises(ProgramError, match="no example inputs: give args"):
        assert_order_invariant(program)


SHARED = nir.Linear(np.eye(4))


def graph(nodes: dict[str, nir.NIRNode], *edges: tuple[str, str], **options: Any) -> nir.NIRGraph:
    ends = {"input": nir.Input(np.array([4])), "output": nir.Output(np.array([4]))}
    return nir.NIRGraph({**ends, **nodes}, list(edges), type_check=False, **options)


CHAIN = (("input", "a"), ("a", "b"), ("b", "output"))
OTHERS: list[tuple[nir.NIRGraph, list[tuple[str, str, str, str]]]] = [
    (graph({"a": SHARED, "b": SHARED}, *CHAIN), []),
    (graph({"a": SHARED, "b": nir.Linear(np.eye(4))}, *CHAIN), [("the same node as", "'a'", "'b'", "b")]),
    (
        graph({"a": nir.Scale(np.ones(4)), "b": SHARED}, *CHAIN, CHAIN[-1], metadata={"x": 1}),
        [
            ("type of node", "Linear", "Scale", "a"),
            ("edge ('b', 'output')", "1 times", "2 times", ""),
            ("metadata", "{}", "{'x': 1}", ""),
        ],
    ),
    (
        graph({"a": SHARED}, ("input", "a"), ("a", "output")),
        [
            ("node 'b'", "a node", "none", ""),
            ("edge ('a', 'b')", "1 times", "0 times", ""),
            ("edge ('a', 'output')", "0 times", "1 times", ""),
            ("edge ('b', 'output')", "1 times", "0 times", ""),
        ],
    ),
]


@pytest.mark.parametrize(("other", "wanted"), OTHERS)
def test_graphs_that_differ(other: nir.NIRGraph, wanted: list[tuple[str, str, str, str]]) -> None:
    found = graph_differences(graph({"a": SHARED, "b": SHARED}, *CHAIN), other, metadata=True)
    assert [(each.where, each.expected, each.given, each.path) for each in found] == wanted


def test_what_fails_for_a_graph_is_shown_as_a_script() -> None:
    given = graph({"a": SHARED, "b": SHARED}, *CHAIN)
    found = graph_differences(given, OTHERS[1][0])
    options = {"args": {"a": torch.ones(2)}, "dtype": torch.float64, "tolerance": 0.5}
    with pytest.raises(DifferenceError, match="they differ:\n  - the same node as") as caught:
        check_graph(found, "they differ", "assert_nir_round_trip", given, **options)
    script = str(caught.value).partition("This shows it again:\n")[2]
    assert script.count("shared_0") == 3
    end = "assert_nir_round_trip(graph, args={'a': torch.tensor([1.0, 1.0], dtype=torch.float32)}, dtype=torch.float64"
    assert f"{end}, tolerance=0.5)" in script
    assert_nir_round_trip(given)


class Idles(nn.Module):
    """Calls a module that does nothing the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Scales()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.inner(x), factor=2.0)


class Scales(nn.Module):
    def forward(self, x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        return x if factor == 1.0 else x * factor


def test_calls_are_numbered_anew_once_those_that_do_nothing_are_gone() -> None:
    nested = unflatten(export(Idles(), (torch.ones(3),)))
    assert_reexport_fixpoint(nested, (torch.ones(3),))


class Decays(nn.Module):
    left: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("left", torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.left.mul_(0.5)
        return x * self.left


class Borrows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own = Decays()
        self.other = nn.Sequential(self.own)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.own(x)) + 1


def test_an_original_takes_the_modules_along_that_others_have_too() -> None:
    program = export(Borrows(), (torch.ones(3),))
    assert_swappable(Borrows(), unflatten(program), (torch.ones(3),))
