"""Putting one node, or a few, in the place of a set of nodes.

Legality: the set is convex with respect to every constraint of the graph, and what lies between its nodes in the
graph's order can go before or after all of them. Only what must is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import fx

from unflatten.errors import IllegalMoveError
from unflatten.view.constraints import Constraints
from unflatten.view.index import Index
from unflatten.view.ports import Port


def gather(index: Index, nodes: Sequence[fx.Node], *, collectives: bool = True) -> None:
    """Moves what stands between nodes out of the way, so that they follow one another.

    Raises:
        IllegalMoveError: something has to run between them; nothing is changed.
    """
    constraints = Constraints.of(index, index.nodes[0].graph, collectives=collectives)
    inside = set(nodes)
    ordered = sorted(inside, key=index.position.__getitem__)
    first = ordered[0]
    start, end = index.position[first], index.position[ordered[-1]]
    between = [node for node in index.nodes[start : end + 1] if node not in inside]
    behind = constraints.dependent(inside, end) - inside
    ahead = constraints.needed(inside, start) - inside
    if ahead & behind:
        raise IllegalMoveError(f"the nodes can't run as one: {_around(constraints, inside, ahead & behind)}")
    # What neither needs the nodes nor is needed by them stays on the side on which less has to be moved.
    first_ones = ahead if len(ahead) <= len(behind) else set(between) - behind
    for node in between:
        if node in first_ones:
            first.prepend(node)
    anchor = first
    for node in [*ordered[1:], *(node for node in between if node not in first_ones)]:
        anchor.append(node)
        anchor = node


def _around(constraints: Constraints, inside: set[fx.Node], both: set[fx.Node]) -> str:
    out = constraints.reason(inside, both)
    back = constraints.reason(both, inside)
    return f"{out}, and {back}"


def put(
    index: Index, nodes: Sequence[fx.Node], outputs: Sequence[Port], make: Callable[[], Sequence[fx.Node]]
) -> list[fx.Node]:
    """Puts what `make` gives, one node for each output, in the place of nodes that follow one another.

    Args:
        index: what is known of the graph.
        nodes: the nodes, gathered, which are erased.
        outputs: those of them that are used outside.
        make: called with the graph's insertion point before the first of the nodes.
    """
    graph = index.nodes[0].graph
    ordered = sorted(set(nodes), key=index.position.__getitem__)
    with graph.inserting_before(ordered[0]):
        made = list(make())
    for port, node in zip(outputs, made, strict=True):
        port.node.replace_all_uses_with(node, propagate_meta=False)
        node.meta.setdefault("val", port.node.meta.get("val"))
    for node in reversed(ordered):
        graph.erase_node(node)
    return made
