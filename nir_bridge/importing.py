"""From a NIR graph to a module that runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import nir
import torch
from torch import nn

from nir_bridge.bodies import Sources, Written, output_name, previous_key, reserved_names, write
from nir_bridge.dynamics import Dynamics, as_dynamics
from nir_bridge.errors import CallError, GraphError, NIRBridgeError
from nir_bridge.fields import Target
from nir_bridge.files import read
from nir_bridge.flattening import FlatGraph, FlatNode, Path, flatten
from nir_bridge.grouping import Group, Grouping, common
from nir_bridge.making import make_modules
from nir_bridge.module import PLAN, NIRModule
from nir_bridge.network import network_of, units_of
from nir_bridge.node_map import Factory, NodeMap
from nir_bridge.notes import noted
from nir_bridge.plan import Feedback, Part, Plan, Port
from nir_bridge.primitives.pooling import SumPool2d
from nir_bridge.sketch import sketched
from nir_bridge.surrogate import Slope, as_slope
from nir_bridge.wiring import delayed_edges
from unflatten.assemble import Definition, assemble, define, paused_collector
from unflatten.paths import by_value

_ONE_BATCH_AXIS = (nn.Conv1d, nn.Conv2d, nn.AvgPool2d, SumPool2d)


def from_nir(  # noqa: PLR0913  # each is a choice of its own, by keyword
    graph: nir.NIRNode | str | os.PathLike[str],
    node_map: NodeMap | Mapping[type[nir.NIRNode], Factory] | None = None,
    *,
    dynamics: str | Dynamics | None = None,
    dt: float | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float32,
    surrogate: str | Slope = "fast_sigmoid",
    learn_dynamics: bool = False,
) -> Any:
    """A NIR graph as a module, nested as the names of its nodes are.

    `y, state = net(x, state)` is one time step, `net.run(xs)` a whole series. The graph is not changed; the result
    depends neither on the order of nodes and edges nor on anything that was called before. Time is linear in the size
    of the graph.

    Args:
        graph: a graph, a single node, or the path of a file.
        node_map: factories of modules for types of nodes, in place of the defaults.
        dynamics: how equations become steps: the name of a preset, or a `Dynamics`; None for what the graph's
            metadata says, as `to_nir` writes it, and `"nir"` where it says nothing.
        dt: the length of a step in seconds, in place of the one in `dynamics`.
        device: of parameters and buffers.
        dtype: of parameters and buffers.
        surrogate: the gradient of spikes: `"fast_sigmoid"`, `"atan"`, `"triangle"`, `"straight_through"`, or a
            function from the distance to the threshold to the slope.
        learn_dynamics: make the constants of neurons parameters instead of buffers.

    Returns:
        An `NIRModule`; for a single node, its plain module.

    Raises:
        FileError: the file can't be read.
        GraphError: the graph contradicts itself.
        NodeError: a field of a node can't be used; `ShapeError` where shapes don't fit.
        NodeMapError: the node map, or what it made, can't be used; `UnmappedNodeError` where a type has no factory.
        DynamicsError: there are no such dynamics.
        CallError: there is no such device or type of numbers.

    Example:
        >>> import nir, numpy as np, torch
        >>> from nir_bridge import from_nir
        >>> ones = np.ones(2, dtype=np.float32)
        >>> graph = nir.NIRGraph.from_list(nir.Linear(np.eye(2)), nir.LIF(ones * 1e-3, ones * 10, ones * 0, ones))
        >>> net = from_nir(graph)
        >>> print(net.code)
        def forward(self, x, state=None):
            lif, state_lif = self.lif(self.linear(x), state['lif'])
            return lif, State(lif=state_lif)
        >>> spikes, state = net(torch.tensor([2.0, 0.5]))
        >>> spikes.tolist()
        [1.0, 0.0]
    """
    mapped = node_map if isinstance(node_map, NodeMap) else NodeMap(node_map)
    node = read(graph) if isinstance(graph, str | os.PathLike) else graph
    if not isinstance(node, nir.NIRNode):
        raise GraphError(f"can't import a {type(node).__name__}; give a nir.NIRGraph, a nir.NIRNode, or a file's path")
    rules = as_dynamics(noted(node) or "nir" if dynamics is None else dynamics, dt)
    target = Target(_device(device), _number_type(dtype), rules, as_slope(surrogate), learn_dynamics)
    if not isinstance(node, nir.NIRGraph):
        return _single(node, mapped, target)
    with paused_collector():
        return _Builder(node, mapped, target).build()


def _device(given: Any) -> torch.device:
    try:
        return torch.device("cpu" if given is None else given)
    except (RuntimeError, TypeError, ValueError) as error:
        raise CallError(f"device is {given!r}; give a torch.device or its name, e.g. 'cpu'") from error


def _number_type(given: Any) -> torch.dtype:
    if isinstance(given, torch.dtype) and given.is_floating_point:
        return given
    raise CallError(f"dtype is {given!r}; give a floating point type, e.g. torch.float32")


def _single(node: nir.NIRNode, node_map: NodeMap, target: Target) -> nn.Module:
    """The module of one node."""
    if isinstance(node, nir.Input | nir.Output):
        return nn.Identity()
    flat = FlatGraph((FlatNode(("node",), type(node).__name__, "node", node, ()),), (), {})
    return make_modules(flat, frozenset(), node_map, target).leaves[0].module


class _Builder:
    """Makes the modules of one graph."""

    def __init__(self, graph: nir.NIRGraph, node_map: NodeMap, target: Target) -> None:
        self.target = target
        self.flat = flatten(graph, node_map.make)
        self.delayed = delayed_edges(self.flat, target.dynamics.feedback)
        self.made = make_modules(self.flat, self.delayed, node_map, target)
        self.units = units_of(self.flat, self.delayed, self.made)
        self.grouping = Grouping(self.flat, [unit.path for unit in self.units], [unit.terms for unit in self.units])
        self.names = [node.name for node in self.flat.nodes] + ["silent"] * (len(self.units) - len(self.flat.nodes))
        self.stateful = self._stateful()
        self.one_batch_axis = any(isinstance(leaf.module, _ONE_BATCH_AXIS) for leaf in self.made.leaves.values())
        self.labels = self._labels()
        self.definitions: dict[Any, Definition] = {}
        self.shared: dict[tuple[int, int], NIRModule] = {}

    def build(self) -> NIRModule:
        sources = Sources(
            self.grouping,
            self.units,
            self.names,
            self.stateful,
            self._silent_axes(),
            reserved_names(NIRModule),
        )
        children: dict[Path, dict[str, nn.Module]] = {(): {}}
        for path in sorted({*self.grouping.groups, *self.grouping.containers}):
            children[path] = {}
        for at, unit in enumerate(self.units):
            if unit.has_module and unit.silent is None:
                children[unit.path[:-1]][unit.path[-1]] = self.made.leaves[at].module
        for path in sorted(children, key=lambda path: (-len(path), path)):
            module = self._module(path, sources, children[path])
            if isinstance(module, NIRModule) and not path:
                return module
            children[path[:-1]][path[-1]] = module
        raise NIRBridgeError("the graph has no root")

    def _module(self, path: Path, sources: Sources, children: dict[str, nn.Module]) -> Any:
        ordered = {name: children[name] for name in sorted(children, key=by_value)}
        if path in self.grouping.containers:
            container = nn.Module()
            container._modules.update(ordered)
            return container
        group = self.grouping.groups[path]
        written = write(sources, group, not path)
        taken = frozenset(children)
        key = (written.body.key(), taken)
        if key not in self.definitions:
            self.definitions[key] = define(self._type_name(path), written.body, NIRModule, taken)
        definition = self.definitions[key]
        scope = self.flat.scopes.get(path)
        made: Any = assemble(definition, path, ordered)
        made.__dict__[PLAN] = self._plan(path, group, written)
        if not isinstance(made, NIRModule):
            raise NIRBridgeError("the class of a module of a graph has to be an NIRModule")
        if scope is None or not path:
            return made
        return self.shared.setdefault((id(scope.graph), id(definition)), made)

    def _type_name(self, path: Path) -> str:
        return "nir.NIRGraph" if path in self.flat.scopes else "nir_bridge.Group"

    def _plan(self, path: Path, group: Group, written: Written) -> Plan:
        optional = self.flat.scopes[path].optional if path in self.flat.scopes else frozenset()
        sources = Sources(self.grouping, self.units, self.names, self.stateful, 0, frozenset())
        ports = tuple(
            Port(self._port_name(given.node, path), name, self._input_shape(given.node), given.node in optional)
            for given, name in zip(group.inputs, written.parameters, strict=True)
        )
        depth = len(path)
        parts = [self.units[unit].path if isinstance(unit, int) else unit for unit in group.units if self._keeps(unit)]
        feedback = [self.units[node] for node in group.feedback if not self.units[node].lagged]
        shapes = {self.units[node].path: self._output_shape(node) for node in group.feedback}
        return Plan(
            ports=ports,
            outputs=tuple(output_name(sources, path, node) for node in group.outputs),
            parts=tuple(Part(part[depth:]) for part in sorted(parts)),
            feedback=tuple(Feedback(previous_key(path, unit), shapes[unit.path]) for unit in feedback),
            stateful=not path or path in self.stateful,
            delayed=tuple(sorted(self.labels.get(path, ()))),
            device=self.target.device,
            dtype=self.target.dtype,
            one_batch_axis=self.one_batch_axis,
            network=None if path else network_of(self.units, self.flat, self.grouping, self._silent_axes()),
            originals=() if path else tuple((node.path, node.label) for node in self.flat.nodes),
            sketch=None if path else sketched(self.flat, self.target.dynamics),
        )

    def _keeps(self, unit: int | Path) -> bool:
        return self.units[unit].stateful if isinstance(unit, int) else unit in self.stateful

    def _port_name(self, node: int, path: Path) -> str:
        unit = self.units[node]
        return self.names[node] if unit.is_input and unit.path[:-1] == path else ".".join(unit.path[len(path) :])

    def _input_shape(self, node: int) -> Any:
        return self.made.takes.get(node)

    def _output_shape(self, node: int) -> tuple[int, ...]:
        shape = self.made.gives.get(node)
        if shape is None:
            label = self.units[node].label
            raise GraphError(
                f"node {label!r} is fed back, but the shape of its output is not known, so that the first step has no "
                f"value for it; give the Input nodes shapes. Edges that feed back: {sorted(self.labels[()])}"
            )
        return shape

    def _labels(self) -> dict[Path, set[tuple[str, str]]]:
        """The delayed edges inside each group."""
        found: dict[Path, set[tuple[str, str]]] = {}
        for edge in (self.flat.edges[at] for at in self.delayed):
            around = common(self.units[edge.source].path, self.units[edge.target].path)
            for size in range(len(around) + 1):
                found.setdefault(around[:size], set()).add(edge.label)
        return found

    def _stateful(self) -> frozenset[Path]:
        found: set[Path] = set()
        for unit in self.units:
            if unit.stateful:
                found.update(unit.path[:size] for size in range(len(unit.path)))
        for path, group in self.grouping.groups.items():
            if group.feedback:
                found.update(path[:size] for size in range(len(path) + 1))
        return frozenset(found - self.grouping.containers)

    def _silent_axes(self) -> int:
        first = self.flat.scopes[()].inputs[0]
        return len(self.made.takes.get(first) or ())
