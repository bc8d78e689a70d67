"""What a call computes, written so that two calls can be compared.

An `Outline` lists operators with numbered operands: equal outlines are the same program. A `fingerprint` forgets
the order, and spells defaults: two graphs with equal fingerprints compute the same with the same effects.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from unflatten import _torch
from unflatten.code.body import Held, Local, Step, frozen
from unflatten.flat.operators import Order, aliased, order_of, values_in, written_arguments
from unflatten.flat.values import FlatInput, FlatNode, Mode, Modes, Value
from unflatten.leaves.leaf import arguments_of
from unflatten.reaching import reached

_SETTINGS = frozenset({"cudnn_enabled", "cudnn_enable"})
"""Arguments that say what the backend was allowed to use, not what is computed."""

Reference = Callable[[FlatNode, Value], Any]
"""What stands for an operand: a `Local` for a result or an input, a `Held` for state or a size, or a constant."""


def input_at(index: int) -> Local:
    """What stands for an input."""
    return Local(-1 - index)


def state_named(name: str) -> Held:
    """What stands for an entry of the state."""
    return Held((Step(name),))


def size_of(text: str) -> Held:
    """What stands for a symbolic number."""
    return Held((Step(text, "size"),), from_root=True)


@dataclass(frozen=True, eq=False, slots=True)
class Outline:
    """Operators with what stands for their operands.

    Attributes:
        nodes: the operators, in an order in which they run.
        args: for each, its arguments, `(args, kwargs)`.
        modes: for each, the modes that the call itself sets.
    """

    nodes: Sequence[FlatNode]
    args: Sequence[tuple[Any, Any]]
    modes: Sequence[Modes]

    def key(self) -> Hashable:
        """Equal for operators that compute the same in the same order."""
        return tuple(
            (node.target, frozen(args), frozen(kwargs) if kwargs else (), _modes_key(modes))
            for node, (args, kwargs), modes in zip(self.nodes, self.args, self.modes, strict=True)
        )


def outline(nodes: Sequence[FlatNode], modes: Sequence[Modes], reference: Reference) -> Outline:
    """Writes down operators; results are numbered as they come."""
    local = {node: Local(at) for at, node in enumerate(nodes)}
    written = []
    for node in nodes:

        def stands_for(leaf: Any, node: FlatNode = node) -> Any:
            if isinstance(leaf, FlatNode | FlatInput):
                return local[leaf] if leaf in local else reference(node, leaf)
            return leaf

        kwargs = _torch.map_aggregate(node.kwargs, stands_for) if node.kwargs else {}
        written.append((_torch.map_aggregate(node.args, stands_for), kwargs))
    return Outline(nodes, written, modes)


def _modes_key(modes: Iterable[Mode]) -> Hashable:
    return tuple((mode.kind, frozen(mode.value)) for mode in modes)


@dataclass(slots=True)
class Numbers:
    """Gives equal things equal numbers, over several graphs."""

    known: dict[Hashable, int] = field(default_factory=dict)

    def of(self, key: Hashable) -> int:
        """The number of a key."""
        return self.known.setdefault(key, len(self.known))


@dataclass(frozen=True, eq=False, slots=True)
class Fingerprint:
    """What a graph computes.

    Attributes:
        numbers: for each operator, a number that is equal for those that compute the same.
        acts: the positions of the operators that don't only compute a result.
        live: the positions of those, and of all that they and the results use.
    """

    numbers: Sequence[int]
    acts: frozenset[int]
    live: frozenset[int]

    def number(self, value: Any) -> Any:
        """The number of what stands for a value, or what it is, if it is no result."""
        if isinstance(value, Local) and value.index >= 0:
            return self.numbers[value.index]
        return ("given", frozen(value))

    def counted(self, positions: Iterable[int]) -> Counter[int]:
        """How often each number occurs at some positions."""
        return Counter(self.numbers[at] for at in positions)


def fingerprint(graph: Outline, numbers: Numbers, results: Iterable[Any], device: torch.device | None) -> Fingerprint:
    """Numbers the operators of a graph.

    Args:
        graph: the graph.
        numbers: the numbers, shared with the graph that it is compared with.
        results: what stands for what the graph returns.
        device: what operators mean that name the meta device.
    """
    effects = _Effects(graph.nodes)
    made: list[int] = []
    seen: Counter[Hashable] = Counter()
    for at, (node, (args, kwargs), modes) in enumerate(zip(graph.nodes, graph.args, graph.modes, strict=True)):
        arguments = _spelled(node.target, args, kwargs)
        key: Hashable = (
            node.target,
            frozen(_torch.map_aggregate(arguments, lambda leaf: _numbered(leaf, made, device))),
            _modes_key(modes),
            effects.at(at),
        )
        if effects.written:  # equal results are different memory, and it may matter which is written
            seen[key] += 1
            key = key, seen[key]
        made.append(numbers.of(key))
    acts = frozenset(at for at, node in enumerate(graph.nodes) if acts_on_its_own(node))
    ends = [value.index for value in results if isinstance(value, Local) and value.index >= 0]
    return Fingerprint(made, acts, frozenset(_reached(graph, [*ends, *acts])))


def acts_on_its_own(node: FlatNode) -> bool:
    """Whether an operator matters even if nothing uses its result."""
    return order_of(node) is not Order.FREE or bool(written_arguments(node))


def _spelled(target: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(target, _torch.OpOverload):
        return {"args": list(args), **kwargs}
    return {name: value for name, value in arguments_of(target, args, kwargs).items() if name not in _SETTINGS}


def _numbered(leaf: Any, made: list[int], device: torch.device | None) -> Any:
    if isinstance(leaf, Local) and leaf.index >= 0:
        return Local(made[leaf.index])
    if isinstance(leaf, torch.device) and leaf.type == "meta" and device is not None:
        return device
    return leaf


def _reached(graph: Outline, ends: Iterable[int]) -> Iterable[int]:
    position: dict[Value, int] = {node: at for at, node in enumerate(graph.nodes)}
    return reached(ends, lambda at: [position[value] for value in graph.nodes[at].operands if value in position])


class _Effects:
    """For each operator, how many effects it comes after, of those that it must not pass."""

    def __init__(self, nodes: Sequence[FlatNode]) -> None:
        self.nodes = nodes
        self.parents: dict[Value, Value] = {}
        writes = [list(values_in(written_arguments(node))) for node in nodes]
        self.written = any(writes)
        self.states: list[Hashable] = [()] * len(nodes)
        if self.written:
            for node in nodes:
                for operand in aliased(node):
                    self.parents[self.root(node)] = self.root(operand)
        touched = {self.root(value) for found in writes for value in found}
        count: Counter[Value] = Counter()
        sequence = 0
        for at, node in enumerate(nodes):
            versions = tuple(count[root] for value in node.operands if (root := self.root(value)) in touched)
            ordered = order_of(node) is not Order.FREE
            self.states[at] = versions, sequence if ordered else -1
            sequence += ordered
            count.update({self.root(value) for value in writes[at]})

    def root(self, value: Value) -> Value:
        while value in self.parents and self.parents[value] is not value:
            value = self.parents[value]
        return value

    def at(self, position: int) -> Hashable:
        return self.states[position]


def items_of(node: FlatNode, count: int, index: int) -> Iterator[FlatNode]:
    """The results of an operator that has several, as operators that take them out."""
    for at in range(count):
        yield FlatNode(index + at, f"{node.name}_{at}", operator.getitem, (node, at), {}, (node,), {}, None)
