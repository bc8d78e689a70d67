"""What goes into a set of nodes and comes out of it, and whether it could run as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from torch import fx

from unflatten.rewrite.memory import written_by
from unflatten.view.index import Index
from unflatten.view.values import Kind, Phase


class Use(Enum):
    """What a value that crosses the border of a region is."""

    VALUE = "value"
    RESULT = "result"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    SAVED = "saved for backward"
    GRADIENT = "gradient"
    MUTATION = "mutation"


@dataclass(frozen=True, slots=True)
class Port:
    """A value that crosses the border of a region.

    Attributes:
        node: the node that makes it.
        kind: what it is.
        name: the full name of a parameter, buffer or constant; the name of the node otherwise.
    """

    node: fx.Node
    kind: Use
    name: str

    def __repr__(self) -> str:
        return f"{self.name} ({self.kind.value})"


@dataclass(frozen=True, slots=True)
class Convexity:
    """Whether no path leaves a region and comes back; true in a condition if so.

    Attributes:
        path: the nodes of a shortest path that does, the first and the last in the region; empty if none does.
    """

    path: tuple[fx.Node, ...] = ()

    def __bool__(self) -> bool:
        return not self.path

    def __str__(self) -> str:
        return "convex" if self else "not convex: " + " -> ".join(node.name for node in self.path)


_STATE = {Kind.PARAMETER: Use.PARAMETER, Kind.BUFFER: Use.BUFFER, Kind.CONSTANT: Use.CONSTANT}


def inputs_of(index: Index, nodes: Sequence[fx.Node]) -> tuple[Port, ...]:
    """What a set of nodes takes from outside, in the graph's order."""
    inside = set(nodes)
    backward = any(index.owners[node].phase is not Phase.FORWARD for node in nodes)
    taken = dict.fromkeys(other for node in nodes for other in node.all_input_nodes if other not in inside)
    return tuple(
        Port(node, _input_kind(index, node, backward=backward), index.roles.names.get(node, node.name))
        for node in sorted(taken, key=index.position.__getitem__)
    )


def _input_kind(index: Index, node: fx.Node, *, backward: bool) -> Use:
    owner = index.owners[node]
    if owner.kind in _STATE:
        return _STATE[owner.kind]
    if owner.phase is Phase.BACKWARD and node.op != "placeholder":
        return Use.GRADIENT
    if owner.kind is Kind.TANGENT:
        return Use.GRADIENT
    return Use.SAVED if backward and owner.kind is not Kind.INPUT and owner.phase is Phase.FORWARD else Use.VALUE


def outputs_of(index: Index, nodes: Sequence[fx.Node]) -> tuple[Port, ...]:
    """What of a set of nodes is used outside, in the graph's order."""
    inside = set(nodes)
    given = [node for node in nodes if any(user not in inside for user in node.users)]
    return tuple(Port(node, _output_kind(index, node, inside), node.name) for node in given)


def _output_kind(index: Index, node: fx.Node, inside: set[fx.Node]) -> Use:
    if node in index.roles.mutations or any(other not in inside for other in written_by(node, {})):
        return Use.MUTATION
    if index.owners[node].phase is Phase.BACKWARD:
        return Use.GRADIENT
    users = [user for user in node.users if user not in inside]
    returned = any(user.op == "output" for user in users) and node not in index.roles.saved
    forward = any(user.op != "output" and index.owners[user].phase is Phase.FORWARD for user in users)
    recomputed = index.owners[node].phase is Phase.RECOMPUTE
    return Use.RESULT if returned or forward or recomputed else Use.SAVED


def convexity_of(index: Index, nodes: Sequence[fx.Node]) -> Convexity:
    """Whether a set of nodes is convex, with a shortest path that is not if it isn't.

    Takes time in proportion to what lies between the first and the last of the nodes.
    """
    inside = set(nodes)
    if not inside:
        return Convexity()
    last = max(index.position[node] for node in inside)
    came: dict[fx.Node, fx.Node] = {}
    pending: deque[fx.Node] = deque()
    for node in nodes:
        for user in _later(node.users, index, last):
            if user not in inside and user not in came:
                came[user] = node
                pending.append(user)
    while pending:
        node = pending.popleft()
        for user in _later(node.users, index, last):
            if user in inside:
                return Convexity(tuple(reversed([user, *_back(node, came)])))
            if user not in came:
                came[user] = node
                pending.append(user)
    return Convexity()


def _later(users: Iterable[fx.Node], index: Index, last: int) -> Iterable[fx.Node]:
    return (user for user in users if index.position[user] <= last)


def _back(node: fx.Node, came: dict[fx.Node, fx.Node]) -> list[fx.Node]:
    path = [node]
    while path[-1] in came:
        path.append(came[path[-1]])
    return path
