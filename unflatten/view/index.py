"""Everything that a view knows of a graph at one moment, and whether the graph has changed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from unflatten.collecting import paused_collector
from unflatten.paths import ROOT, ModulePath, Scope
from unflatten.view.backward import own_backward
from unflatten.view.carrying import carry
from unflatten.view.metadata import Metadata
from unflatten.view.order import in_order, ranks
from unflatten.view.owners import Draft, begin, own_forward, own_inputs
from unflatten.view.roles import Roles, read_roles
from unflatten.view.values import Kind, Owner, Phase

WORK = (Kind.COMPUTE, Kind.ACCUMULATION, Kind.COLLECTIVE)
"""The kinds of nodes that regions are made of."""


@dataclass(eq=False, slots=True)
class Index:
    """Owners of all nodes, and the nodes of each module.

    Attributes:
        nodes: the graph's, in order.
        position: of each node.
        owners: of each node.
        roles: what inputs and outputs stand for.
        groups: the positions of the nodes of each scope and phase that compute something.
        children: the names of the modules inside each module, in the model's order as far as that is known.
        calls: of each module, the numbers of its calls.
        types: the dotted class names of modules.
        kept: what was found out from the graph as it is, by what that is called.
        state: of each module, the nodes that stand for parameters and the like in it, by their full names.
    """

    nodes: list[fx.Node]
    position: dict[fx.Node, int]
    owners: dict[fx.Node, Owner]
    roles: Roles
    groups: dict[tuple[int, Phase], list[int]] = field(default_factory=dict)
    children: dict[ModulePath, list[str]] = field(default_factory=dict)
    calls: dict[ModulePath, list[int]] = field(default_factory=dict)
    types: dict[ModulePath, str] = field(default_factory=dict)
    state: dict[ModulePath, dict[str, fx.Node]] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    _scopes: dict[int, Scope] = field(default_factory=dict)
    _known: tuple[ModulePath, ...] = ()
    _inside: dict[ModulePath, list[int]] = field(default_factory=dict)
    _metadata: Metadata = field(default_factory=Metadata)

    @staticmethod
    @paused_collector()
    def of(
        graph: fx.Graph,
        program: ExportedProgram | None,
        named: Mapping[str, str] | Sequence[str],
        forward: ExportedProgram | None = None,
    ) -> Index:
        """Reads a graph, in linear time; `forward` is a program of its forward that knows the calls."""
        nodes = list(graph.nodes)
        roles = read_roles(graph, program, named)
        draft = begin(nodes, roles)
        if forward is not None:
            carry(draft, _told(forward), _told(forward.run_decompositions()))
        own_forward(draft)
        own_backward(draft)
        own_inputs(draft)
        owners = draft.owners()
        index = Index(nodes, draft.position, dict(zip(nodes, owners, strict=True)), roles)
        index.types[ROOT] = draft.stacks.root_type
        index._group(owners)
        index._link(ranks(graph, forward or program, index.state))
        index._metadata = draft.metadata
        return index

    def is_of(self, graph: fx.Graph) -> bool:
        """Whether a graph still is as it was."""
        nodes = list(graph.nodes)
        return nodes == self.nodes and self._metadata.is_like(Metadata.of(nodes))

    def _group(self, owners: Sequence[Owner]) -> None:
        known: dict[ModulePath, None] = {ROOT: None}
        grouped: dict[int, tuple[Owner, list[int]]] = {}
        last, run = None, []
        for at, owner in zip(self.position.values(), owners, strict=True):
            if owner is not last:
                last, run = owner, grouped.setdefault(id(owner), (owner, []))[1]
            run.append(at)
        for owner, run in grouped.values():
            if owner.kind in WORK:
                self._scopes[id(owner.scope)] = owner.scope
                self.groups.setdefault((id(owner.scope), owner.phase), []).extend(run)
        for node in sorted(self.roles.names, key=self.position.__getitem__):
            owner, name = self.owners[node], self.roles.names[node]
            if owner.kind not in WORK:
                self.state.setdefault(owner.path, {})[name] = node
                known.setdefault(owner.path)
        self._place(known)
        self._known = tuple(known)

    def _place(self, known: dict[ModulePath, None]) -> None:
        """Notes the calls and classes of modules, and which scopes are in which."""
        calls: dict[ModulePath, set[int]] = {}
        for number, scope in self._scopes.items():
            around: dict[ModulePath, None] = {ROOT: None}
            for call in scope:
                calls.setdefault(call.path, set()).add(call.index)
                if call.type_name:
                    self.types.setdefault(call.path, call.type_name)
                around.update(dict.fromkeys(_up(call.path, around)))
            for path in around:
                self._inside.setdefault(path, []).append(number)
            known.update(around)
        self.calls = {path: sorted(found) for path, found in calls.items()}

    def _link(self, rank: Mapping[ModulePath, int]) -> None:
        children: dict[ModulePath, set[str]] = {ROOT: set()}
        for path in self._known:
            while path != ROOT:
                siblings = children.setdefault(path.parent, set())
                if path.name in siblings:
                    break
                siblings.add(path.name)
                children.setdefault(path, set())
                path = path.parent  # noqa: PLW2901
        self.children = {path: in_order(path, names, rank) for path, names in children.items()}

    def work(self, path: ModulePath, call: int | None, phase: Phase | None, *, own: bool = False) -> list[fx.Node]:
        """The nodes of a module's calls, or of one of them, in the graph's order."""
        found: list[int] = []
        for number in self._inside.get(path, ()):
            scope = self._scopes[number]
            if own and (scope[-1].path if scope else ROOT) != path:
                continue
            if call is not None and not any(other.path == path and other.index == call for other in scope):
                continue
            if own and call is not None and scope[-1].index != call:
                continue
            for each in Phase if phase is None else (phase,):
                found += self.groups.get((number, each), ())
        return [self.nodes[at] for at in sorted(found)]

    def count(self, path: ModulePath, phase: Phase) -> int:
        """How many nodes a module and all inside it have."""
        return sum(len(self.groups.get((number, phase), ())) for number in self._inside.get(path, ()))


def _told(program: ExportedProgram) -> Draft:
    """What the metadata of a program tells."""
    nodes = list(program.graph.nodes)
    return begin(nodes, read_roles(program.graph, program, ()))


def _up(path: ModulePath, known: Mapping[ModulePath, None]) -> Iterator[ModulePath]:
    """A path and those that hold it, up to the first that is known."""
    while path not in known:
        yield path
        path = path.parent
