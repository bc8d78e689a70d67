"""Giving every operator an owner: the innermost module call that it belongs to.

A capture records a scope on most operators. Results taken out of a tuple belong to the operator that made
it. Whatever a graph pass added without a scope takes it from its neighbours; should that make a call
impossible to separate, `unflatten.legality` moves it again. Every decision carries its evidence.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from unflatten import _torch
from unflatten.flat.values import FlatNode, FlatProgram, Value
from unflatten.paths import Scope, common_scope


class Evidence(Enum):
    """Why an operator has the owner that it has."""

    STACK = "the capture recorded it"
    PRODUCER = "it takes a result out of what its owner computed, or closes what that opened"
    NEIGHBOURS = "its scope was missing, and its neighbours are there"
    NOTHING = "nothing said where it belongs, so the root keeps it"


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner of each operator, by `FlatNode.index`."""

    scopes: tuple[Scope, ...]
    evidence: tuple[Evidence, ...]

    def extended(self, program: FlatProgram) -> Ownership:
        """The owners of a program that has more operators, whose scopes are known."""
        added = program.nodes[len(self.scopes) :]
        scopes = (*self.scopes, *(node.scope or () for node in added))
        return Ownership(scopes, (*self.evidence, *(Evidence.PRODUCER for _ in added)))


def assign_owners(program: FlatProgram) -> Ownership:
    """Finds every operator's owner, in linear time."""
    nodes = program.nodes
    scopes: list[Scope | None] = []
    evidence: list[Evidence] = []
    opened: list[FlatNode] = []
    for node in nodes:
        producer: Value | None = None
        if node.target is operator.getitem and node.operands:
            producer = node.operands[0]
        elif node.target in _torch.BRACKET_OPEN:
            opened.append(node)
        elif node.target in _torch.BRACKET_CLOSE and opened:
            producer = opened.pop()  # strict export leaves the scope off what closes a transform
        if isinstance(producer, FlatNode):
            scopes.append(scopes[producer.index])
            evidence.append(Evidence.PRODUCER)
        else:
            scopes.append(node.scope)
            evidence.append(Evidence.STACK)
    missing = [node for node in nodes if scopes[node.index] is None]
    if missing:
        _fill(nodes, scopes, evidence, missing)
    return Ownership(tuple(scope or () for scope in scopes), tuple(evidence))


def _fill(
    nodes: Sequence[FlatNode], scopes: list[Scope | None], evidence: list[Evidence], missing: list[FlatNode]
) -> None:
    """Gives each operator without a scope the deepest one that its neighbours share.

    An operator whose inputs all come from one call, or from calls around that one, can join it; so can one
    whose results are all used in one call. The deeper of the two is taken, the producer's where equal.
    """
    users = _users(nodes)
    forward: dict[int, Scope | None] = {}
    for node in missing:
        sources = [
            forward[value.index] if value.index in forward else scopes[value.index]
            for value in node.operands
            if isinstance(value, FlatNode)
        ]
        forward[node.index] = _deepest(sources)
    backward: dict[int, Scope | None] = {}
    for node in reversed(missing):
        targets = [backward[user] if user in backward else scopes[user] for user in users.get(node.index, ())]
        backward[node.index] = _deepest(targets)
    for node in missing:
        ahead, behind = forward[node.index], backward[node.index]
        candidates = [scope for scope in (ahead, behind) if scope is not None]
        scopes[node.index] = max(candidates, key=len) if candidates else ()
        if evidence[node.index] is Evidence.STACK:
            evidence[node.index] = Evidence.NEIGHBOURS if candidates else Evidence.NOTHING
        elif node.operands and isinstance(node.operands[0], FlatNode):
            scopes[node.index] = scopes[node.operands[0].index]


def _users(nodes: Iterable[FlatNode]) -> dict[int, list[int]]:
    users: dict[int, list[int]] = {}
    for node in nodes:
        for value in node.operands:
            if isinstance(value, FlatNode):
                users.setdefault(value.index, []).append(node.index)
    return users


def _deepest(scopes: Iterable[Scope | None]) -> Scope | None:
    """The deepest scope if the others enclose it, what they share if not, None if there are none."""
    known = [scope for scope in scopes if scope is not None]
    if not known:
        return None
    deepest = max(known, key=len)
    shared = deepest
    for scope in known:
        if common_scope(scope, deepest) != scope:
            shared = common_scope(shared, scope)
    return shared
