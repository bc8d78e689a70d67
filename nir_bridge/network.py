"""The flat graph as frozen values: what goes into each node, and in which order whole series can be run."""

from __future__ import annotations

import nir

from nir_bridge.bodies import previous_key
from nir_bridge.components import components
from nir_bridge.errors import GraphError
from nir_bridge.fields import Shape
from nir_bridge.flattening import FlatEdge, FlatGraph
from nir_bridge.grouping import Grouping, common
from nir_bridge.making import Made
from nir_bridge.plan import Network, Term, Unit
from nir_bridge.primitives.neuron import Neuron


def units_of(flat: FlatGraph, delayed: frozenset[int], made: Made) -> list[Unit]:
    """The nodes, and behind them one for each shape of zeros that nodes without edges get.

    Raises:
        GraphError: nothing leads into an Output, or into a node whose shape is not known.
    """
    terms: list[list[Term]] = [[] for _ in flat.nodes]
    for at, edge in enumerate(flat.edges):
        terms[edge.target].append(Term(edge.source, at in delayed, _level(flat, edge)))
    silent: dict[Shape, int] = {}
    for number, found in enumerate(terms):
        if _lacks_input(flat, number, found):
            found.append(Term(silent.setdefault(_silence(flat, made, number), len(flat.nodes) + len(silent)), False, 0))
    units = []
    for number, node in enumerate(flat.nodes):
        leaf = made.leaves.get(number)
        lagged = leaf is not None and isinstance(leaf.module, Neuron) and "z" in leaf.module.parts
        units.append(
            Unit(
                node.path,
                node.label,
                tuple(terms[number]),
                stateful=leaf is not None and leaf.stateful,
                own=leaf is None or leaf.own,
                has_module=leaf is not None,
                is_input=isinstance(node.node, nir.Input),
                lagged=lagged,
            )
        )
    for shape in silent:
        path = (f"%0{len(units) - len(flat.nodes)}",)
        units.append(Unit(path, "silence", (), has_module=False, silent=shape))
    return units


def _lacks_input(flat: FlatGraph, number: int, terms: list[Term]) -> bool:
    """Whether a node gets nothing; an Input of a nested graph also where all that it gets is from inside."""
    scope = flat.nodes[number].scope
    if not terms or not scope or number not in flat.scopes[scope].inputs:
        return not terms and number not in flat.scopes[()].inputs
    return all(term.level >= len(scope) for term in terms)


def _level(flat: FlatGraph, edge: FlatEdge) -> int:
    """How deep the innermost group is that an edge is in: around both ends, and not inside of a deeper graph."""
    first, second = flat.nodes[edge.source].path, flat.nodes[edge.target].path
    level = len(common(first, second))
    for size in range(len(edge.scope) + 1, level + 1):
        if first[:size] in flat.scopes:
            return size - 1
    return level


def _silence(flat: FlatGraph, made: Made, number: int) -> Shape:
    """The shape of the zeros that a node gets which nothing leads into."""
    node, shape = flat.nodes[number], made.takes.get(number)
    if isinstance(node.node, nir.Output):
        raise GraphError(f"nothing leads into Output {node.label!r}; add an edge, or take it out")
    if shape is None:
        raise GraphError(f"nothing leads into node {node.label!r}, and its shape is not known; add an edge")
    return shape


def network_of(units: list[Unit], flat: FlatGraph, grouping: Grouping, silent_axes: int) -> Network:
    """What running series needs to know."""
    following: list[list[int]] = [[] for _ in units]
    for target, unit in enumerate(units):
        for term in unit.terms:
            following[term.source].append(target)
    stages = []
    for members in components(range(len(units)), following):
        inside = set(members)
        now: dict[int, list[int]] = {node: [] for node in members}
        for node in members:
            for term in units[node].terms:
                if term.source in inside and not term.delayed:
                    now[term.source].append(node)
        stages.append(tuple(loop[0] for loop in components(members, now)))
    root = flat.scopes[()]
    kept = tuple(
        (node, (*group.path, *previous_key(group.path, units[node])))
        for group in grouping.groups.values()
        for node in group.feedback
        if not units[node].lagged
    )
    return Network(
        tuple(units),
        tuple(stages),
        tuple((flat.nodes[node].name, node) for node in root.inputs),
        tuple((flat.nodes[node].name, node) for node in root.outputs),
        kept,
        tuple(sorted(path for path in grouping.groups if path)),
        tuple(node for node in _calls(grouping) if units[node].has_module),
        silent_axes,
    )


def _calls(grouping: Grouping) -> list[int]:
    """The nodes in the order in which a step reaches them."""
    found: list[int] = []
    pending: list[int | tuple[str, ...]] = [()]
    while pending:
        unit = pending.pop()
        if isinstance(unit, int):
            found.append(unit)
        else:
            pending += reversed(grouping.groups[unit].units)
    return found
