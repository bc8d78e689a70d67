"""The modules of a flat graph, made in the order in which values flow, with the shapes that flow between them.

Shapes go along every edge, delayed ones too, as nothing else may say what a node takes. Where
nothing tells a node, what it says of itself counts; constants that can be broadcast say least.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import nir
from torch import nn

from nir_bridge.checking import check_made
from nir_bridge.errors import NodeError, ShapeError
from nir_bridge.fields import Fields, Shape, Target, declared_shape
from nir_bridge.flattening import FlatGraph, FlatNode
from nir_bridge.node_map import NodeMap, adapted, takes_state
from nir_bridge.primitives import PRIMITIVES
from nir_bridge.primitives.base import Primitive
from nir_bridge.primitives.delay import Delay
from nir_bridge.primitives.neuron import Neuron

_BROADCAST = (nir.Scale, nir.Threshold, nir.Delay, nir.I, nir.IF, nir.LI, nir.LIF, nir.CubaLI, nir.CubaLIF)
"""Nodes whose constants may have fewer axes than what they take."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The module of a node.

    Attributes:
        module: the module.
        stateful: whether it takes and gives a state.
        own: whether this package made it, so that what it does with axes and states is known.
    """

    module: nn.Module
    stateful: bool
    own: bool


@dataclass(frozen=True, slots=True)
class Made:
    """What a flat graph's nodes became.

    Attributes:
        order: the nodes in an order in which they can run.
        leaves: by node, for nodes that have a module.
        takes, gives: batch-less shapes by node; None where they are not known.
    """

    order: tuple[int, ...]
    leaves: dict[int, Leaf]
    takes: dict[int, Shape | None]
    gives: dict[int, Shape | None]


def topological(flat: FlatGraph, delayed: frozenset[int]) -> tuple[int, ...]:
    """The nodes in an order in which they can run; the same for the same graph."""
    following: list[list[int]] = [[] for _ in flat.nodes]
    waiting = [0] * len(flat.nodes)
    for at, edge in enumerate(flat.edges):
        if at not in delayed:
            following[edge.source].append(edge.target)
            waiting[edge.target] += 1
    ready = deque(node for node, count in enumerate(waiting) if count == 0)
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for other in following[node]:
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    return tuple(order)


def make_modules(flat: FlatGraph, delayed: frozenset[int], node_map: NodeMap, target: Target) -> Made:
    """Makes the module of every node and checks every shape.

    Raises:
        NodeError: a field of a node can't be used.
        ShapeError: shapes don't fit together.
        NodeMapError: a factory made something that can't be used.
    """
    maker = _Maker(flat, node_map, target)
    order = topological(flat, delayed)
    maker.make(order)
    for node in order:
        maker.finish(node)
    return Made(order, maker.leaves, maker.takes, maker.gives)


@dataclass(slots=True)
class _Maker:
    flat: FlatGraph
    node_map: NodeMap
    target: Target
    leaves: dict[int, Leaf] = field(default_factory=dict)
    takes: dict[int, Shape | None] = field(default_factory=dict)
    gives: dict[int, Shape | None] = field(default_factory=dict)
    told: dict[int, Shape | None] = field(default_factory=dict)
    shared: dict[int, Leaf] = field(default_factory=dict)
    sources: dict[int, list[int]] = field(default_factory=dict)
    users: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for at, edge in enumerate(self.flat.edges):
            self.sources.setdefault(edge.target, []).append(at)
            self.users.setdefault(edge.source, []).append(edge.target)

    def make(self, order: Sequence[int]) -> None:
        """Makes the module of each node, once something tells what it gets. A shape goes along each edge once."""
        starts = frozenset(self.flat.scopes[()].inputs) if self.flat.scopes else frozenset()
        self.spread(deque(order), starts)
        for node in sorted((node for node in order if node not in self.gives), key=self.vagueness):
            if node not in self.gives:
                self.gives[node] = self.shape(node, self.summed(node))
                self.spread(deque(self.users.get(node, ())), starts)

    def spread(self, pending: deque[int], starts: frozenset[int]) -> None:
        """Visits nodes, and those that they lead to, as far as something tells them what they get."""
        while pending:
            node = pending.popleft()
            if node in self.gives:
                continue
            given = None if node in starts else self.summed(node)
            if given is None and node not in starts and node in self.sources:
                continue
            self.gives[node] = self.shape(node, given)
            pending += self.users.get(node, ())

    def vagueness(self, number: int) -> tuple[bool, int, int]:
        """Less for nodes that say better what they take."""
        node = self.flat.nodes[number].node
        primitive = primitive_of(node)
        own = primitive.takes(Fields(self.flat.nodes[number].label, node)) if primitive else None
        return isinstance(node, _BROADCAST), -len(own or ()), -math.prod(own or (0,))

    def shape(self, number: int, given: Shape | None) -> Shape | None:
        """The shape that a node gives for what it gets; makes its module."""
        node = self.flat.nodes[number]
        self.told[number] = given
        if node.is_junction:
            return self.port_shape(number, node, given)
        fields, primitive = Fields(node.label, node.node), primitive_of(node.node)
        leaf = self.shared.get(id(node.node))
        if leaf is None:
            leaf = self.shared[id(node.node)] = self.leaf(node, fields, primitive, given)
        self.leaves[number] = leaf
        if leaf.own and primitive is not None:
            return primitive.gives(fields, given or primitive.takes(fields))
        shape = check_made(leaf.module, fields.label, leaf.stateful, given, self.target)
        if shape is not None or primitive is None:
            return shape
        return primitive.gives(fields, primitive.takes(fields))

    def finish(self, number: int) -> None:
        """Notes what a node takes, once all shapes are known."""
        node = self.flat.nodes[number]
        given = self.summed(number)
        if given != self.told[number]:
            self.check(number, given)
        if node.is_junction:
            self.takes[number] = self.gives[number]
            return
        fields, primitive = Fields(node.label, node.node), primitive_of(node.node)
        self.takes[number] = given or (primitive.takes(fields) if primitive else declared_shape(fields, "input"))

    def check(self, number: int, given: Shape | None) -> None:
        """Compares what a node gives with what it gives now that all that it gets is known."""
        node, before = self.flat.nodes[number], self.gives[number]
        if node.is_junction:
            self.port_shape(number, node, given)
            return
        after = self.shape(number, given)
        if before is None:
            self.gives[number] = after
        elif after is not None and after != before:
            raise NodeError(
                f"node {node.label!r} gives {before}, but with what comes back to it {after}; give its "
                "constants the full shape"
            )

    def leaf(self, node: FlatNode, fields: Fields, primitive: Primitive | None, given: Shape | None) -> Leaf:
        """The module of a node."""
        made = node.made or self.node_map.make(node.node, node.label)
        if made is not None:
            module = adapted(made)
            return Leaf(self.placed(module), takes_state(module, node.label), own=False)
        if primitive is None:
            raise self.node_map.unmapped(node.node, node.label)
        primitive.gives(fields, given)
        shape = given if given is not None else primitive.takes(fields)
        module = primitive.make(fields, shape, self.target)
        return Leaf(module, isinstance(module, Neuron | Delay), own=True)

    def placed(self, module: nn.Module) -> nn.Module:
        """A factory's module on the device, with the type, of the network."""
        tensors = [*module.parameters(), *module.buffers()]
        if any(tensor.is_meta for tensor in tensors) and self.target.device.type != "meta":
            return module.to(dtype=self.target.dtype)
        return module.to(device=self.target.device, dtype=self.target.dtype)

    def port_shape(self, number: int, node: FlatNode, given: Shape | None) -> Shape | None:
        """The shape of what goes through an Input or Output node."""
        kind = "input" if isinstance(node.node, nir.Input) else "output"
        fields = Fields(node.label, node.node)
        declared = declared_shape(fields, kind)
        if given is not None:
            if declared is not None and _squeezed(declared) != _squeezed(given):
                raise fields.error(
                    f"{kind}_type", f"declares the shape {declared}, but gets {given}; correct one of them", ShapeError
                )
            return given
        return self.wanted(number, declared)

    def wanted(self, number: int, declared: Shape | None) -> Shape | None:
        """The shape of an input, from what it declares and what its users take: exporters leave batch axes in."""
        taken = [self.taken(user) for user in self.users.get(number, ())]
        if declared is not None and declared in taken:
            return declared
        for shape in taken:
            if shape is None or (declared is None and not _squeezed(shape)):
                continue
            if declared is None or _squeezed(declared) == _squeezed(shape):
                return shape
        return declared

    def taken(self, number: int) -> Shape | None:
        """The shape that a node says it takes; None where it doesn't."""
        node = self.flat.nodes[number]
        primitive = primitive_of(node.node)
        if primitive is None or node.made is not None or self.node_map.factory(node.node) is not None:
            return None
        return primitive.takes(Fields(node.label, node.node))

    def summed(self, number: int) -> Shape | None:
        """The shape of the sum of all edges into a node, as far as it is known."""
        found: dict[Shape, str] = {}
        for at in self.sources.get(number, ()):
            shape = self.gives.get(self.flat.edges[at].source)
            if shape is not None:
                found.setdefault(shape, self.flat.edges[at].label[0])
        if len(found) > 1:
            shown = ", ".join(f"{shape} from {source!r}" for shape, source in found.items())
            raise ShapeError(
                f"the edges into node {self.flat.nodes[number].label!r} are added, but their shapes differ: {shown}"
            )
        return next(iter(found), None)


def _squeezed(shape: Sequence[int]) -> Shape:
    return tuple(size for size in shape if size != 1)


def primitive_of(node: nir.NIRNode) -> Primitive | None:
    """What is known of a node's type, or of the nearest base of it."""
    return next((PRIMITIVES[kind] for kind in type(node).__mro__ if kind in PRIMITIVES), None)
