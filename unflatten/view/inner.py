"""The graphs that higher-order operators are given: branches, loop bodies, checkpointed parts."""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx

from unflatten.view.index import Index


def bodies_of(index: Index, root: fx.GraphModule) -> Iterator[tuple[str, fx.GraphModule, dict[str, str]]]:
    """The name of each graph, the graph, and the full names of the parameters among its placeholders.

    A body is given the last of what its operator takes: a condition, say, stands before the operands.
    """
    for node in index.nodes:
        taken: list[fx.Node] = []
        fx.map_arg((node.args, node.kwargs), taken.append)
        inner = {other: _body(root, other) for other in taken}
        operands = [other for other in taken if inner[other] is None]
        for other, body in inner.items():
            if body is None or node.op != "call_function":
                continue
            placeholders = [each.name for each in body.graph.find_nodes(op="placeholder")]
            names: dict[str, str] = {}
            if len(placeholders) <= len(operands):
                given = zip(placeholders, operands[len(operands) - len(placeholders) :], strict=True)
                names = {name: index.roles.names[each] for name, each in given if each in index.roles.names}
            yield str(other.target), body, names


def _body(root: fx.GraphModule, node: fx.Node) -> fx.GraphModule | None:
    if node.op != "get_attr":
        return None
    value: object = root
    for name in str(node.target).split("."):
        value = getattr(value, name, None)
    return value if isinstance(value, fx.GraphModule) else None
