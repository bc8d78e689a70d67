"""From what was noted to nested graphs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import nir
import numpy as np

from nir_bridge.errors import ExportError
from nir_bridge.exporting.copying import copied, key_of, placed
from nir_bridge.exporting.folding import fold_constants
from nir_bridge.exporting.naming import Names
from nir_bridge.exporting.recipes import Given, Site
from nir_bridge.exporting.resolving import Resolver, empty_regions
from nir_bridge.exporting.statefulness import has_state
from nir_bridge.exporting.trace import Region, Source, Trace
from nir_bridge.fields import Shape

Edges = list[tuple[str, str]]


def assemble(trace: Trace, *, flatten: bool) -> nir.NIRGraph:
    """The graph of a run.

    Args:
        trace: what was noted.
        flatten: one graph with dotted names, instead of nested ones.

    Raises:
        ExportError: a module with a state is called more than once.
    """
    inlined = frozenset(range(1, len(trace.regions))) if flatten else empty_regions(trace)
    resolver = Resolver(trace, inlined)
    fold_constants(trace, resolver)
    return _Assembler(trace, resolver).graph(trace.regions[0], frozenset())


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
        self.graphs: dict[Any, nir.NIRGraph] = {}
        self.levels: dict[int, _Level] = {}
        self.regions = Counter(id(region.module) for region in trace.regions)
        self.calls = Counter(id(op.module) for op in trace.ops if op.module is not None)

    def graph(self, region: Region, forbidden: frozenset[str]) -> nir.NIRGraph:
        """The graph of a region, with the graphs inside it."""
        level = self.levels[region.number] = self.named(region, forbidden)
        nodes: dict[str, nir.NIRNode] = {}
        for key, name in level.ports.items():
            nodes[name] = nir.Input({"input": _typed(region.ports[key].shape)})
        for kind, number in self.trace.events:
            if kind == "op" and number in level.ops:
                nodes[level.ops[number]] = self.node(number)
            elif kind == "region" and number in level.regions:
                name = level.regions[number]
                inner = frozenset(other[len(name) + 1 :] for other in level.names.taken if other.startswith(f"{name}."))
                nodes[name] = self.graph(self.trace.regions[number], inner)
        for key, name in level.outs.items():
            nodes[name] = nir.Output({"output": _typed(region.outs[key].shape)})
        made = nir.NIRGraph(nodes, self.edges(region, level), {}, type_check=False)
        if self.regions[id(region.module)] == 1:
            return made
        return self.graphs.setdefault((id(region.module), key_of(made)), made)

    def named(self, region: Region, forbidden: frozenset[str]) -> _Level:
        """Names for all nodes of a graph: modules first, so that they keep theirs."""
        level = _Level()
        ops = [at for at, op in enumerate(self.trace.ops) if self.is_in(op.region, region)]
        ops = [at for at in ops if at not in self.resolver.folded]
        inner = [
            r for r in self.trace.regions[1:] if r.number not in self.resolver.inlined and self.is_in(r.parent, region)
        ]
        wanted = {at: self.full(self.trace.ops[at].region, region, self.trace.ops[at].name) for at in ops}
        paths = {r.number: self.full(r.parent, region, r.name) for r in inner}
        level.names.reserve([*(wanted[at] for at in ops if self.trace.ops[at].module is not None), *paths.values()])
        for kind, number in self.trace.events:
            if kind == "op" and number in wanted and self.trace.ops[number].module is not None:
                level.ops[number] = level.names.unique(wanted[number])
            elif kind == "region" and number in paths:
                level.regions[number] = level.names.unique(paths[number])
        level.names.taken |= forbidden
        for key, port in region.ports.items():
            if not region.number or not self.resolver.is_inner(region, key):
                level.ports[key] = level.names.unique(port.name)
        single = len(region.outs) == 1 and region.number != 0
        for key, port in region.outs.items():
            level.outs[key] = level.names.unique("output" if single else port.name, "_{}_")
        for number in ops:
            if number not in level.ops:
                level.ops[number] = level.names.unique(wanted[number])
        return level

    def is_in(self, number: int | None, region: Region) -> bool:
        """Whether the innermost graph around a region is that of another."""
        return number is not None and self.resolver.host(number) == region.number

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
        key = (id(op.module), op.takes) if op.module is not None else number
        if isinstance(op.recipe, Given) and op.module is not None:
            key = id(op.module)
        if key not in self.nodes:
            self.nodes[key] = placed(copied(op.recipe.node(Site(op.where, op.takes, op.gives))), op.takes, op.gives)
        node = self.nodes[key]
        if op.module is not None and self.calls[id(op.module)] > 1 and has_state(node):
            raise ExportError(
                f"{op.where}: it is called {self.calls[id(op.module)]} times in one step, and has a state, which NIR "
                "nodes don't share. Make one module for each call, or call it once with the sum of its inputs"
            )
        return node

    def edges(self, region: Region, level: _Level) -> Edges:
        """The edges of one graph."""
        found: Edges = []
        for number, name in level.ops.items():
            op = self.trace.ops[number]
            for key, terms in op.inputs.items():
                target = f"{name}.{key}" if len(op.inputs) > 1 else name
                found += [(self.end(term, level), target) for term in self.resolver.resolve(terms)]
        for number, name in level.regions.items():
            inner = self.trace.regions[number]
            ports = self.levels[number].ports
            for key, port in ports.items():
                target = f"{name}.{port}" if len(ports) > 1 else name
                found += [(self.end(term, level), target) for term in self.resolver.resolve(inner.ports[key].terms)]
        for key, name in level.outs.items():
            found += [(self.end(term, level), name) for term in self.resolver.resolve(region.outs[key].terms)]
        return found

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


def _typed(shape: Shape | None) -> Any:
    return None if shape is None else np.array(shape, dtype=np.int64)
