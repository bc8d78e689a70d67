"""Moving nodes, and as few others as that needs.

Legality: every constraint of the graph holds after the move. To come earlier, a node takes with it what it needs and
what is not early enough; to come later, what needs it. Should that run into the place where it is to go, or into the
region that it is to leave behind, the move is refused with a shortest reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from unflatten.errors import IllegalMoveError, ViewError
from unflatten.view.constraints import Constraints
from unflatten.view.index import Index

_FIXED = ("placeholder", "get_attr", "output")


def before(
    index: Index, nodes: Sequence[fx.Node], anchor: fx.Node, region: Sequence[fx.Node] = (), *, collectives: bool = True
) -> list[fx.Node]:
    """Moves nodes to just before another one; gives those that were moved.

    Args:
        index: what is known of the graph.
        nodes: the nodes.
        anchor: the node to come before.
        region: nodes that have to stay where they are too.
        collectives: whether these have to start in the order in which they do.

    Raises:
        IllegalMoveError: they can't come there; nothing is changed.
    """
    constraints = _constraints(index, nodes, collectives=collectives)
    at = index.position[anchor]
    late = [node for node in nodes if index.position[node] > at]
    moved = constraints.needed(late, at)
    blocked = [node for node in (anchor, *region) if node in moved and node not in late]
    if blocked:
        raise IllegalMoveError(
            f"can't move {_names(nodes)} before {anchor.name!r}: {constraints.reason(blocked, late)} has to stay in "
            "this order"
        )
    order = sorted(moved, key=index.position.__getitem__)
    for node in order:
        anchor.prepend(node)
    return order


def after(
    index: Index, nodes: Sequence[fx.Node], anchor: fx.Node, region: Sequence[fx.Node] = (), *, collectives: bool = True
) -> list[fx.Node]:
    """Moves nodes to just after another one; gives those that were moved.

    Raises:
        IllegalMoveError: they can't come there; nothing is changed.
    """
    constraints = _constraints(index, nodes, collectives=collectives)
    at = index.position[anchor]
    early = [node for node in nodes if index.position[node] < at]
    moved = constraints.dependent(early, at)
    blocked = [node for node in (anchor, *region) if node in moved and node not in early]
    if blocked:
        raise IllegalMoveError(
            f"can't move {_names(nodes)} after {anchor.name!r}: {constraints.reason(early, blocked)} has to stay in "
            "this order"
        )
    order = sorted(moved, key=index.position.__getitem__)
    for node in reversed(order):
        anchor.append(node)
    return order


def _constraints(index: Index, nodes: Sequence[fx.Node], *, collectives: bool) -> Constraints:
    for node in nodes:
        if node not in index.owners:
            raise ViewError(f"{node!s} is not a node of this graph")
        if node.op in _FIXED:
            raise IllegalMoveError(f"{node.name!r} is a {node.op} and computes nothing that could be moved")
    return Constraints.of(index, index.nodes[0].graph, collectives=collectives)


def _names(nodes: Sequence[fx.Node]) -> str:
    shown = ", ".join(repr(node.name) for node in nodes[:3])
    return shown + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
