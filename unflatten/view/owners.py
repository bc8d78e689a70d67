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


@dataclass(slots=True)
class Draft:
    """Owners in the making.

    Attributes:
        nodes: the nodes of the graph, in order.
        roles: what inputs and outputs stand for.
        metadata: what the metadata of the nodes says.
        stacks: what their stacks mean.
        phases: of every node, in order.
        kinds: of every node, in order.
        scopes: of the nodes whose owner is settled.
        evidence: why.
        again: nodes that are computed again for the backward, with what they compute again.
        paths: of parameters and the like, which no call encloses.
        holders: the modules with parameters, where the graph tells no calls: they may be called several times there.
    """

    nodes: Sequence[fx.Node]
    roles: Roles
    metadata: Metadata
    stacks: StackReader
    phases: dict[fx.Node, Phase]
    kinds: dict[fx.Node, Kind]
    again: dict[fx.Node, fx.Node]
    scopes: dict[fx.Node, Scope] = field(default_factory=dict)
    evidence: dict[fx.Node, Evidence] = field(default_factory=dict)
    paths: dict[fx.Node, ModulePath] = field(default_factory=dict)
    holders: frozenset[ModulePath] = frozenset()

    def settle(self, node: fx.Node, scope: Scope, evidence: Evidence) -> None:
        """Gives a node its owner."""
        self.scopes[node], self.evidence[node] = scope, evidence

    def outside(self, scope: Scope) -> Scope:
        """The innermost scope whose module certainly has one call."""
        while scope and scope[-1].path in self.holders:
            scope = scope[:-1]
        return scope

    def owners(self) -> dict[fx.Node, Owner]:
        """The finished owners; equal ones are one object."""
        made: dict[object, Owner] = {}
        scopes: dict[Scope, Scope] = {}
        same: dict[int, Scope] = {}
        found: dict[fx.Node, Owner] = {}
        last: tuple[object, ...] = ()
        for node, phase, kind in zip(self.nodes, self.phases.values(), self.kinds.values(), strict=True):
            scope, evidence = self.scopes.get(node, ()), self.evidence.get(node, Evidence.GUESS)
            path = self.paths.get(node) if kind in _NAMED else None
            told = scope, path, phase, kind, evidence
            if not last or not all(map(operator.is_, told, last)):
                last = told
                if id(scope) not in same:  # hashing a scope takes longer than all else here
                    same[id(scope)] = scopes.setdefault(scope, scope)
                scope = same[id(scope)]
                key = (id(scope), id(path), id(phase), id(kind), id(evidence))
                if key not in made:
                    place = (scope[-1].path if scope else ROOT) if path is None else path
                    made[key] = Owner(scope, place, phase, kind, evidence)
                owner = made[key]
            found[node] = owner
        return found


def begin(nodes: Sequence[fx.Node], roles: Roles) -> Draft:
    """Phases and kinds, and the owners that metadata tells outright."""
    metadata = Metadata.of(nodes)
    phases, again = phases_of(nodes, roles, metadata)
    kinds = kinds_of(nodes, roles)
    draft = Draft(nodes, roles, metadata, StackReader(metadata.stacks, metadata.forward_stacks), phases, kinds, again)
    stacked = bool(draft.stacks.known[1:])
    told = zip(nodes, phases.values(), kinds.values(), metadata.origins, *draft.stacks.scopes, strict=True)
    for node, phase, kind, origin, own, forward in told:
        if origin is not None:
            scope, said = read_origin(origin)
            draft.settle(node, scope, Evidence.ORIGIN)
            phases[node] = said or phase
            continue
        # A stack that was open when a computation was stopped in the middle stays on all nodes after it.
        if kind in _NAMED or node in again or (again and phase is Phase.BACKWARD):
            continue
        read = own if own is not None or phase is Phase.FORWARD else forward
        if read is not None:
            draft.settle(node, read, Evidence.STACK)
        elif stacked and phase is Phase.FORWARD and kind not in _IDLE and any(key in node.meta for key in _TRACED):
            draft.settle(node, (), Evidence.STACK)
    return draft


def own_inputs(draft: Draft) -> None:
    """The owners of parameters, inputs, tangents and outputs."""
    for node in draft.nodes:
        kind = draft.kinds[node]
        if kind not in _IDLE:
            continue
        if node in draft.roles.names:
            draft.paths[node] = ModulePath.parse(draft.roles.names[node]).parent
            draft.evidence[node] = Evidence.STACK
        elif kind is Kind.TANGENT:
            of = draft.roles.tangents.get(node)
            draft.settle(node, draft.scopes.get(of, ()) if of is not None else (), Evidence.DATAFLOW)
            draft.phases[node] = Phase.BACKWARD
        elif node not in draft.scopes:
            draft.settle(node, (), Evidence.STACK)


def own_forward(draft: Draft) -> None:
    """Owns forward and recomputed nodes without metadata.

    Parts of results come first, then users of parameters, then what lies between what is known.
    """
    blank = [node for node in draft.nodes if node not in draft.scopes and draft.kinds[node] not in _IDLE]
    todo = [node for node in blank if draft.phases[node] is not Phase.BACKWARD]
    bare = not any(draft.kinds[node] not in _IDLE for node in draft.scopes)
    if bare:
        draft.holders = frozenset(ModulePath.parse(name).parent for name in draft.roles.names.values())
    of_parameters = _parameter_paths(draft, todo) if bare else {}
    for node in todo:
        if node.target is operator.getitem and node.all_input_nodes and node.all_input_nodes[0] in draft.scopes:
            draft.settle(node, draft.scopes[node.all_input_nodes[0]], Evidence.DATAFLOW)
        elif node in of_parameters:
            draft.settle(node, _scope_of(common_path(of_parameters[node])), Evidence.DATAFLOW)
    if not bare and not draft.stacks.known[1:]:  # all calls were recorded, so the rest is outside of them
        for node in todo:
            if node not in draft.scopes:
                draft.settle(node, (), Evidence.GUESS)
    spread(draft, [node for node in todo if node not in draft.scopes and node not in draft.again], bare=bare)
    if draft.again:
        _own_again(draft)


def _own_again(draft: Draft) -> None:
    """Owns what is computed again by what it computes again, and what that keeps by the stacks of both."""
    own = dict(zip(draft.nodes, draft.stacks.scopes[0], strict=True))
    known: dict[Scope, Scope] = {}
    around: dict[ModulePath, set[Scope]] = {}
    for node, first in draft.again.items():
        if first is not node and draft.evidence.get(node) is not Evidence.ORIGIN:
            scope = draft.scopes.get(first, ())
            draft.settle(node, scope, draft.evidence.get(first, Evidence.GUESS))
            known.setdefault(own[node] or (), scope)
            for size, call in enumerate(scope, 1):
                around.setdefault(call.path, set()).add(scope[:size])
    for node, first in draft.again.items():
        if first is node and node not in draft.scopes:
            stack = own[node] or ()
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
        if draft.kinds[other] in (Kind.INPUT, Kind.OUTPUT) and bare:
            scopes.append(())
        elif draft.kinds[other] not in _IDLE and draft.phases[other] is not Phase.BACKWARD:
            scopes.append(known.get(other) if other in waiting else draft.scopes.get(other))
    found = [scope for scope in scopes if scope is not None]
    return enclosing(found) if found else None


def enclosing(scopes: Iterable[Scope]) -> Scope:
    """The innermost call around all of some scopes, of which there is one at least."""
    distinct = list(dict.fromkeys(scopes))
    shared = distinct[0]
    for scope in distinct[1:]:
        shared = common_scope(shared, scope)
    return shared
