"""The owner of every node of a graph: forward nodes first, the backward by way of them.

A wrong owner is worse than a coarse one: where the evidence leaves several, what encloses them all is taken.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import fx

from unflatten.paths import ROOT, ModuleCall, ModulePath, Scope, common_scope
from unflatten.view.metadata import Metadata
from unflatten.view.origins import read_origin
from unflatten.view.phases import kinds_of, phases_of
from unflatten.view.roles import Roles
from unflatten.view.stacks import StackReader
from unflatten.view.values import Evidence, Kind, Owner, Phase

_TRACED = ("seq_nr", "original_aten", "torch_fn", "source_fn_stack", "nn_module_stack")
"""Metadata of nodes that a capture made while no module was running; a pass leaves none of it."""
_NAMED = (Kind.PARAMETER, Kind.BUFFER, Kind.CONSTANT, Kind.OUTPUT)
_IDLE = (Kind.PARAMETER, Kind.BUFFER, Kind.CONSTANT, Kind.INPUT, Kind.SAVED, Kind.TANGENT, Kind.OUTPUT)
_AHEAD = (Phase.FORWARD, Phase.RECOMPUTE)


@dataclass(slots=True)
class Draft:
    """Owners in the making, in lists by position: a dict for each fact would cost a miss of the cache at each question.

    Attributes:
        nodes: the nodes of the graph, in order.
        position: of each node.
        roles: what inputs and outputs stand for.
        metadata: what the metadata of the nodes says.
        stacks: what their stacks mean.
        phases: of every node.
        kinds: of every node.
        again: nodes that are computed again for the backward, with what they compute again.
        scopes: of every node, None where that is not settled.
        evidence: why.
        paths: of parameters and the like, which no call encloses, by position.
        holders: the modules with parameters, where the graph tells no calls: they may be called several times there.
    """

    nodes: Sequence[fx.Node]
    position: dict[fx.Node, int]
    roles: Roles
    metadata: Metadata
    stacks: StackReader
    phases: list[Phase]
    kinds: list[Kind]
    again: dict[fx.Node, fx.Node]
    scopes: list[Scope | None] = field(init=False)
    evidence: list[Evidence] = field(init=False)
    paths: dict[int, ModulePath] = field(default_factory=dict)
    holders: frozenset[ModulePath] = frozenset()

    def __post_init__(self) -> None:
        self.scopes = [None] * len(self.nodes)
        self.evidence = [Evidence.GUESS] * len(self.nodes)

    def phase(self, node: fx.Node) -> Phase:
        """The phase of a node."""
        return self.phases[self.position[node]]

    def kind(self, node: fx.Node) -> Kind:
        """What a node is."""
        return self.kinds[self.position[node]]

    def scope(self, node: fx.Node) -> Scope | None:
        """The calls around a node, None where they are not settled."""
        return self.scopes[self.position[node]]

    def scopes_of(self, nodes: Iterable[fx.Node]) -> list[Scope]:
        """The calls around each of some nodes, without those that are not settled."""
        found = (self.scopes[self.position[node]] for node in nodes)
        return [scope for scope in found if scope is not None]

    def why(self, node: fx.Node) -> Evidence:
        """Why a node has its owner."""
        return self.evidence[self.position[node]]

    def settle(self, node: fx.Node, scope: Scope, evidence: Evidence) -> None:
        """Gives a node its owner."""
        at = self.position[node]
        self.scopes[at], self.evidence[at] = scope, evidence

    def outside(self, scope: Scope) -> Scope:
        """The innermost scope whose module certainly has one call."""
        while scope and scope[-1].path in self.holders:
            scope = scope[:-1]
        return scope

    def owners(self) -> list[Owner]:
        """The finished owners, in order; equal ones are one object."""
        made: dict[object, Owner] = {}
        scopes: dict[Scope, Scope] = {}
        same: dict[int, Scope] = {}
        found: list[Owner] = []
        last: tuple[object, ...] = ()
        paths = map(self.paths.get, range(len(self.nodes)))
        for told in zip(self.scopes, paths, self.phases, self.kinds, self.evidence, strict=True):
            if not last or not all(map(operator.is_, told, last)):
                last = told
                scope, path, phase, kind, evidence = told
                if scope is None:
                    scope = ()
                if id(scope) not in same:  # hashing a scope takes longer than all else here
                    same[id(scope)] = scopes.setdefault(scope, scope)
                scope = same[id(scope)]
                key = (id(scope), id(path), id(phase), id(kind), id(evidence))
                if key not in made:
                    place = (scope[-1].path if scope else ROOT) if path is None else path
                    made[key] = Owner(scope, place, phase, kind, evidence)
                owner = made[key]
            found.append(owner)
        return found


def begin(nodes: Sequence[fx.Node], roles: Roles) -> Draft:
    """Phases and kinds, and the owners that metadata tells outright."""
    metadata = Metadata.of(nodes)
    position = dict(zip(nodes, range(len(nodes)), strict=True))
    phases, again = phases_of(nodes, position, roles, metadata)
    kinds = kinds_of(position, roles, metadata)
    stacks = StackReader(metadata.stacks, metadata.forward_stacks)
    draft = Draft(nodes, position, roles, metadata, stacks, phases, kinds, again)
    stacked = bool(draft.stacks.known[1:])
    repeated = {position[node] for node in again}
    told = zip(phases, kinds, metadata.origins, *draft.stacks.scopes, strict=True)
    for at, (phase, kind, origin, own, forward) in enumerate(told):
        read = own if own is not None or phase is Phase.FORWARD else forward
        if origin is not None:
            draft.scopes[at], said = read_origin(origin)
            draft.evidence[at] = Evidence.ORIGIN
            phases[at] = said or phase
        # A stack that was open when a computation was stopped in the middle stays on all nodes after it.
        elif kind in _NAMED or at in repeated or (again and phase is Phase.BACKWARD):
            continue
        elif read is not None:
            draft.scopes[at], draft.evidence[at] = read, Evidence.STACK
        elif stacked and phase is Phase.FORWARD and kind not in _IDLE and _is_traced(nodes[at]):
            draft.scopes[at], draft.evidence[at] = (), Evidence.STACK
    return draft


def _is_traced(node: fx.Node) -> bool:
    return any(key in node.meta for key in _TRACED)


def own_inputs(draft: Draft) -> None:
    """The owners of parameters, inputs, tangents and outputs."""
    names = draft.roles.names
    for at, kind in enumerate(draft.kinds):
        if kind not in _IDLE:
            continue
        node = draft.nodes[at]
        if node in names:
            if kind in _NAMED:
                draft.paths[at] = ModulePath.parse(names[node]).parent
            draft.evidence[at] = Evidence.STACK
        elif kind is Kind.TANGENT:
            of = draft.roles.tangents.get(node)
            draft.settle(node, (draft.scope(of) or ()) if of is not None else (), Evidence.DATAFLOW)
            draft.phases[at] = Phase.BACKWARD
        elif draft.scopes[at] is None:
            draft.settle(node, (), Evidence.STACK)


def own_forward(draft: Draft) -> None:
    """Owns forward and recomputed nodes without metadata.

    Parts of results come first, then users of parameters, then what lies between what is known.
    """
    facts = enumerate(zip(draft.scopes, draft.kinds, draft.phases, strict=True))
    blank = (at for at, (scope, kind, phase) in facts if scope is None and kind not in _IDLE and phase in _AHEAD)
    todo = [draft.nodes[at] for at in blank]
    bare = all(scope is None or kind in _IDLE for scope, kind in zip(draft.scopes, draft.kinds, strict=True))
    if bare:
        draft.holders = frozenset(ModulePath.parse(name).parent for name in draft.roles.names.values())
    of_parameters = _parameter_paths(draft, todo) if bare else {}
    for node in todo:
        first = draft.scope(node.all_input_nodes[0]) if node.all_input_nodes else None
        if node.target is operator.getitem and first is not None:
            draft.settle(node, first, Evidence.DATAFLOW)
        elif node in of_parameters:
            draft.settle(node, _scope_of(common_path(of_parameters[node])), Evidence.DATAFLOW)
    if not bare and not draft.stacks.known[1:]:  # all calls were recorded, so the rest is outside of them
        for node in todo:
            if draft.scope(node) is None:
                draft.settle(node, (), Evidence.GUESS)
    spread(draft, [node for node in todo if draft.scope(node) is None and node not in draft.again], bare=bare)
    if draft.again:
        _own_again(draft)


def _own_again(draft: Draft) -> None:
    """Owns what is computed again by what it computes again, and what that keeps by the stacks of both."""
    own = draft.stacks.scopes[0]
    known: dict[Scope, Scope] = {}
    around: dict[ModulePath, set[Scope]] = {}
    for node, first in draft.again.items():
        if first is not node and draft.why(node) is not Evidence.ORIGIN:
            scope = draft.scope(first) or ()
            draft.settle(node, scope, draft.why(first))
            known.setdefault(own[draft.position[node]] or (), scope)
            for size, call in enumerate(scope, 1):
                around.setdefault(call.path, set()).add(scope[:size])
    for node, first in draft.again.items():
        if first is node and draft.scope(node) is None:
            stack = own[draft.position[node]] or ()
            if stack in known:
                draft.settle(node, known[stack], Evidence.STACK)
                continue
            # Which of several calls is done again is not told; what is around them all is.
            single = (around[call.path] for call in reversed(stack) if len(around.get(call.path, ())) == 1)
            draft.settle(node, next(iter(next(single, {()}))), Evidence.GUESS)


def _parameter_paths(draft: Draft, todo: Sequence[fx.Node]) -> dict[fx.Node, list[ModulePath]]:
    """The modules that nodes call, and the holders of parameters that they take, as they are or transposed."""
    holders = {node: [ModulePath.parse(name).parent] for node, name in draft.roles.names.items()}
    found: dict[fx.Node, list[ModulePath]] = {}
    for node in todo:
        if node.op == "call_module":
            found[node] = [ModulePath.parse(str(node.target))]
            continue
        paths = [path for other in node.all_input_nodes for path in holders.get(other, ())]
        if paths:
            found[node] = paths
            if all(other in holders for other in node.all_input_nodes):
                holders[node] = list(dict.fromkeys(paths))
    return found


def common_path(paths: Sequence[ModulePath]) -> ModulePath:
    """The innermost module that holds all of some."""
    shared = paths[0].names
    for path in paths[1:]:
        size = next((at for at, (a, b) in enumerate(zip(shared, path.names, strict=False)) if a != b), None)
        shared = shared[: min(len(shared), len(path.names)) if size is None else size]
    return ModulePath(shared)


def _scope_of(path: ModulePath) -> Scope:
    """The calls that lead to a module, where nothing is known of them but that."""
    return tuple(ModuleCall(ModulePath(path.names[:size])) for size in range(1, len(path.names) + 1))


def spread(draft: Draft, todo: Sequence[fx.Node], *, bare: bool) -> None:
    """Gives nodes what their neighbours share.

    Args:
        draft: the owners.
        todo: nodes without one, in the graph's order.
        bare: whether the graph tells no calls at all. What lies between two modules then belongs to what encloses
            both, and never to one that has parameters. Otherwise a pass added the nodes, and the deeper of what is
            before and after them is taken.
    """
    waiting = set(todo)
    ahead: dict[fx.Node, Scope | None] = {}
    behind: dict[fx.Node, Scope | None] = {}
    for node in todo:
        ahead[node] = _shared(draft, node.all_input_nodes, ahead, waiting, bare)
    for node in reversed(todo):
        behind[node] = _shared(draft, node.users, behind, waiting, bare)
    for node in todo:
        sides = [scope for scope in (ahead[node], behind[node]) if scope is not None]
        scope: Scope = ()
        if sides:
            scope = enclosing(sides) if bare else max(sides, key=len)
        draft.settle(node, draft.outside(scope), Evidence.GUESS)


def _shared(
    draft: Draft, others: Iterable[fx.Node], known: Mapping[fx.Node, Scope | None], waiting: set[fx.Node], bare: bool
) -> Scope | None:
    scopes: list[Scope | None] = []
    for other in others:
        if draft.kind(other) in (Kind.INPUT, Kind.OUTPUT) and bare:
            scopes.append(())
        elif draft.kind(other) not in _IDLE and draft.phase(other) is not Phase.BACKWARD:
            scopes.append(known.get(other) if other in waiting else draft.scope(other))
    found = [scope for scope in scopes if scope is not None]
    return enclosing(found) if found else None


def enclosing(scopes: Iterable[Scope]) -> Scope:
    """The innermost call around all of some scopes, of which there is one at least."""
    distinct = list(dict.fromkeys(scopes))
    shared = distinct[0]
    for scope in distinct[1:]:
        shared = common_scope(shared, scope)
    return shared
