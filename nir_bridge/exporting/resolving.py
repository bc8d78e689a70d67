"""Sums with everything taken out that is no node: regions that hold none, and feedback over the state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nir_bridge.errors import ExportError, NoMeaningError
from nir_bridge.exporting.trace import Region, Source, Terms, Trace


def older(terms: Terms, lag: int) -> Terms:
    """A sum as it was some steps before."""
    return tuple(replace(term, lag=term.lag + lag) for term in terms) if lag else terms


@dataclass(slots=True)
class Resolver:
    """Follows sums to nodes and to the ports of regions that stay.

    Attributes:
        trace: what was noted.
        inlined: the regions that are no graphs of their own.
        folded: operations that became a part of another one.
    """

    trace: Trace
    inlined: frozenset[int]
    folded: set[int] = field(default_factory=set)
    pending: set[Source] = field(default_factory=set)

    def resolve(self, terms: Terms) -> Terms:
        """The sum, term by term."""
        return tuple(found for term in terms for found in self.source(term))

    def source(self, source: Source) -> Terms:
        """What one term comes to."""
        if source.lag:
            return older(self.source(replace(source, lag=0)), source.lag)
        if source.kind == "op":
            return self.resolve(self.into(source.at)) if source.at in self.folded else (source,)
        if source in self.pending:
            raise ExportError(
                "a part of the model's state is the sum of itself and nothing else in between; a cycle needs a node"
            )
        self.pending.add(source)
        try:
            return self.crossing(source)
        finally:
            self.pending.discard(source)

    def crossing(self, source: Source) -> Terms:
        """What a port, an output or a part of the last state comes to."""
        if source.kind == "previous":
            signal = self.trace.feedback.get(source.key)
            if signal is None:
                raise NoMeaningError(
                    f"the part {'.'.join(source.key)!r} of the model's state is used as a signal, but is the state of "
                    "a module. In NIR a node gives only its output; feed that back instead"
                )
            return older(self.resolve(signal.terms), 1)
        region = self.trace.regions[source.at]
        if source.kind == "out":
            return self.resolve(region.outs[source.key].terms) if source.at in self.inlined else (source,)
        if source.at == 0:
            return (source,)
        outside = self.resolve(region.ports[source.key].terms)
        if source.at in self.inlined:
            return outside
        if outside and all(term.kind == "out" and term.at == source.at for term in outside):
            return tuple(
                found for term in outside for found in older(self.resolve(region.outs[term.key].terms), term.lag)
            )
        return (source,)

    def into(self, op: int) -> Terms:
        """All that goes into an operation."""
        return tuple(term for terms in self.trace.ops[op].inputs.values() for term in terms)

    def host(self, number: int) -> int:
        """The innermost region around, or at, another that is a graph of its own."""
        while number in self.inlined:
            parent = self.trace.regions[number].parent
            number = 0 if parent is None else parent
        return number

    def is_inner(self, region: Region, key: object) -> bool:
        """Whether all that comes in over a port comes from the region itself."""
        return self.source(Source("port", region.number, key)) != (Source("port", region.number, key),)


def empty_regions(trace: Trace) -> frozenset[int]:
    """The regions in which there is no node."""
    full: set[int] = {0}
    for op in trace.ops:
        at: int | None = op.region
        while at is not None and at not in full:
            full.add(at)
            at = trace.regions[at].parent
    return frozenset(region.number for region in trace.regions if region.number not in full)
