"""The calls of a forward program, carried over to the forward of a graph that lost them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import fx

from unflatten.paths import Scope
from unflatten.view.numbering import numbered
from unflatten.view.owners import Draft, enclosing
from unflatten.view.values import Evidence, Kind, Phase


def carry(draft: Draft, *programs: Draft) -> None:
    """Gives nodes without an owner that of the nodes of a forward program that compute the same.

    Args:
        draft: the owners of the graph.
        programs: forms of the program, of which the one with most in common counts.
    """
    best: dict[fx.Node, Scope] = {}
    for program in programs:
        found = _carried(draft, program)
        if len(found) > len(best):
            best = found
    for node, scope in best.items():
        if draft.scope(node) is None:
            draft.settle(node, scope, Evidence.STACK)
            if draft.phase(node) is Phase.BACKWARD:  # the backward alone uses it, but the forward computes it
                draft.phases[draft.position[node]] = Phase.FORWARD


def _carried(draft: Draft, program: Draft) -> dict[fx.Node, Scope]:
    known: dict[Any, int] = {}
    scopes: dict[int, list[Scope]] = {}
    for node, number in _numbers(program, known).items():
        scope = program.scope(node)
        if scope is not None and node.op == "call_function":
            scopes.setdefault(number, []).append(scope)
    return {
        node: enclosing(scopes[number])
        for node, number in _numbers(draft, known).items()
        if number in scopes and node.op == "call_function"
    }


def _numbers(draft: Draft, known: dict[Any, int]) -> dict[fx.Node, int]:
    """Numbers values; parameters count by name, other inputs by their place among them."""
    places: dict[fx.Node, tuple[str, Any]] = {}
    count: Counter[Kind] = Counter()
    for node in draft.nodes:
        if node.op == "placeholder" and node not in draft.roles.names:
            kind = draft.kind(node)
            places[node] = (kind.value, count[kind])
            count[kind] += 1
    names = draft.roles.names

    def leaf(node: fx.Node) -> Any:
        return ("named", names[node]) if node in names else places.get(node, (node.op, str(node.target), node.name))

    return numbered(draft.nodes, known, leaf)
