"""From what was noted to nested graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import nir
import numpy as np

from nir_bridge.errors import ExportError
from nir_bridge.exporting.copying import copied, key_of, placed
from nir_bridge.exporting.delaying import Delays
from nir_bridge.exporting.folding import fold_constants
from nir_bridge.exporting.looping import fold_steps
from nir_bridge.exporting.naming import Names
from nir_bridge.exporting.recipes import Given, Site
from nir_bridge.exporting.resolving import Resolver, empty_regions
from nir_bridge.exporting.statefulness import has_state
from nir_bridge.exporting.trace import Region, Source, Terms, Trace
from nir_bridge.fields import Shape
from nir_bridge.notes import KEY

Edges = list[tuple[str, str]]


def assemble(trace: Trace, *, flatten: bool) -> tuple[nir.NIRGraph, Delays]:
    """The graph of a run, and how many steps old the values are that its edges carry.

    Args:
        trace: what was noted.
        flatten: one graph with dotted names, instead of nested ones.

    Raises:
        ExportError: a module with a state is called more than once.
    """
    trace = fold_steps(trace)
    inlined = frozenset(range(1, len(trace.regions))) if flatten else empty_regions(trace)
    resolver = Resolver(trace, inlined)
    fold_constants(trace, resolver)
    assembler = _Assembler(trace, resolver)
    graph = assembler.graph(trace.regions[0], frozenset(), "")
    return graph, Delays(assembler.lags, assembler.shifts)


@dataclass(slots=True)
class _Level:
    """The names in one graph: of operations, of graphs inside, and of their ports."""

    names: Names = field(default_factory=Names)
    ops: dict[int, str] = field(default_factory=dict)
    regions: dict[int, str] = field(default_factory=dict)
    ports: dict[Any, str] = field(default_factory=dict)
    outs: dict[Any, str] = field(default_factory=dict)


class _Assembler:
    """Makes nodes and edges, graph by graph."""

    def __init__(self, trace: Trace, resolver: Resolver) -> None:
        self.trace = trace
        self.resolver = resolver
        self.nodes: dict[Any, nir.NIRNode] = {}
        self.made: dict[Any, nir.NIRNode] = {}
        self.graphs: dict[Any, nir.NIRGraph] = {}
        self.levels: dict[int, _Level] = {}
        self.lags: dict[tuple[str, str], set[int]] = {}
        self.shifts: dict[str, int] = {}
        self.inside = self.contents()
        self.regions = Counter(id(region.module) for region in trace.regions)
        self.calls = Counter(id(op.module) for op in trace.ops if op.module is not None)

    def graph(self, region: Region, forbidden: frozenset[str], prefix: str) -> nir.NIRGraph:
        """The graph of a region, with the graphs inside it; the prefix stands before its names in labels of edges."""
        level = self.levels[region.number] = self.named(region, forbidden)
        nodes: dict[str, nir.NIRNode] = {}
        for key, name in level.ports.items():
            nodes[name] = _marked(nir.Input({"input": _typed(region.ports[key].shape)}), name, "input_")
        for kind, number in self.inside.get(region.number, ()):
            if kind == "op":
                nodes[level.ops[number]] = self.node(number)
                if number in self.trace.shifts:
                    self.shifts[prefix + level.ops[number]] = self.trace.shifts[number]
            else:
                name = level.regions[number]
                nodes[name] = self.graph(self.trace.regions[number], level.names.behind(name), f"{prefix}{name}.")
        for key, name in level.outs.items():
            nodes[name] = _marked(nir.Output({"output": _typed(region.outs[key].shape)}), name, "output_")
        made = nir.NIRGraph(nodes, self.edges(region, level, prefix), {}, type_check=False)
        if self.regions[id(region.module)] == 1:
            return made
        return self.graphs.setdefault((id(region.module), key_of(made)), made)

    def named(self, region: Region, forbidden: frozenset[str]) -> _Level:
        """Names for all nodes of a graph: modules first, so that they keep theirs."""
        level = _Level()
        inside = [
            (kind, number, self.wanted(kind, number, region)) for kind, number in self.inside.get(region.number, ())
        ]
        modules = [each for each in inside if each[0] == "region" or self.trace.ops[each[1]].module is not None]
        level.names.reserve(name for _, _, name in modules)
        for kind, number, name in modules:
            (level.ops if kind == "op" else level.regions)[number] = level.names.unique(name)
        level.names.taken |= forbidden
        for key, port in region.ports.items():
            if not region.number or not self.resolver.is_inner(region, key):
                level.ports[key] = level.names.unique(port.name)
        single = len(region.outs) == 1 and region.number != 0
        for key, port in region.outs.items():
            level.outs[key] = level.names.unique("output" if single else port.name, "_{}_")
        for kind, number, name in inside:
            if kind == "op" and number not in level.ops:
                level.ops[number] = level.names.unique(name)
        return level

    def contents(self) -> dict[int, list[tuple[str, int]]]:
        """The operations and graphs in each graph, in the order in which they ran."""
        found: dict[int, list[tuple[str, int]]] = {}
        for kind, number in self.trace.events:
            left_out = self.resolver.folded if kind == "op" else self.resolver.inlined
            around = self.trace.ops[number].region if kind == "op" else self.trace.regions[number].parent
            if number not in left_out and around is not None:
                found.setdefault(self.resolver.host(around), []).append((kind, number))
        return found

    def wanted(self, kind: str, number: int, host: Region) -> str:
        """The name that an operation or a graph is to have."""
        if kind == "op":
            return self.full(self.trace.ops[number].region, host, self.trace.ops[number].name)
        return self.full(self.trace.regions[number].parent, host, self.trace.regions[number].name)

    def full(self, number: int | None, host: Region, name: tuple[str, ...]) -> str:
        """A name with those of the regions in between that are no graphs of their own."""
        parts = list(name)
        while number is not None and number != host.number:
            parts = [*self.trace.regions[number].name, *parts]
            number = self.trace.regions[number].parent
        return ".".join(parts)

    def node(self, number: int) -> nir.NIRNode:
        """The node of an operation; the same object for each call of a module.

        Raises:
            ExportError: a module with a state is called more than once.
        """
        op = self.trace.ops[number]
        key: Any = (id(op.module), op.takes, id(op.recipe)) if op.module is not None else number
        if isinstance(op.recipe, Given) and op.module is not None:
            key = (id(op.module), id(op.recipe))
        if key not in self.nodes:
            made = placed(copied(op.recipe.node(Site(op.where, op.takes, op.gives))), op.takes, op.gives)
            if self.calls[id(op.module)] > 1:  # weights that are made anew for each call can still be the same
                made = self.made.setdefault((id(op.module), key_of(made)), made)
            self.nodes[key] = made
        node = self.nodes[key]
        if op.module is not None and self.calls[id(op.module)] > 1 and has_state(node):
            raise ExportError(
                f"{op.where}: it is called {self.calls[id(op.module)]} times in one step, and has a state, which NIR "
                "nodes don't share. Make one module for each call, or call it once with the sum of its inputs. If the "
                "calls are steps of time, take the input apart, for x_t in x, or export a single step"
            )
        return node

    def edges(self, region: Region, level: _Level, prefix: str) -> Edges:
        """The edges of one graph."""
        inside = self.inside.get(region.number, ())
        targets = [each for kind, number in inside for each in self.targets(kind, number, level)]
        targets += [(name, region.outs[key].terms) for key, name in level.outs.items()]
        found: Edges = []
        for target, terms in targets:
            for term in self.resolver.resolve(terms):
                source = self.end(term, level)
                found.append((source, target))
                self.lags.setdefault((prefix + source, prefix + target), set()).add(term.lag)
        return found

    def targets(self, kind: str, number: int, level: _Level) -> Iterator[tuple[str, Terms]]:
        """What leads into a node, or into the ports of a graph."""
        if kind == "op":
            name, inputs = level.ops[number], self.trace.ops[number].inputs
            for key, terms in inputs.items():
                yield (f"{name}.{key}" if len(inputs) > 1 else name), terms
        else:
            name, ports = level.regions[number], self.levels[number].ports
            for port_key, port in ports.items():
                yield (f"{name}.{port}" if len(ports) > 1 else name), self.trace.regions[number].ports[port_key].terms

    def end(self, source: Source, level: _Level) -> str:
        """The name of the node, or the output of a graph, that a value comes from."""
        if source.kind == "op":
            name = level.ops[source.at]
            return name if source.key is None else f"{name}.{source.key}"
        if source.kind == "port":
            return level.ports[source.key]
        outs = self.levels[source.at].outs
        name = level.regions[source.at]
        return f"{name}.{outs[source.key]}" if len(outs) > 1 else name


def _marked(node: nir.NIRNode, name: str, word: str) -> nir.NIRNode:
    """An Input or Output; where it is called like those that nir's type check adds, its metadata says that it isn't."""
    if name.startswith(word):
        node.metadata[KEY] = {"own": 1}
    return node


def _typed(shape: Shape | None) -> Any:
    return None if shape is None else np.array(shape, dtype=np.int64)
