"""Numbers for values: nodes that compute the same from the same inputs have the same number."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from torch import fx


def numbered(
    nodes: Iterable[fx.Node], known: dict[Any, int], leaf: Callable[[fx.Node], Any], same: Container[Any] = ()
) -> dict[fx.Node, int]:
    """Numbers nodes, which come in an order in which they can run.

    Args:
        nodes: the nodes; others that they take count as unlike anything.
        known: the numbers so far, which grows; two graphs that share it can be compared.
        leaf: what stands for a node that is no call of a function.
        same: operators that give what they take.
    """
    numbers: dict[fx.Node, int] = {}
    for node in nodes:
        if node.target in same and node.args[0] in numbers:
            numbers[node] = numbers[node.args[0]]  # type: ignore[index]
            continue
        key: Any = leaf(node)
        if node.op == "call_function":
            arguments = fx.map_arg((node.args, node.kwargs), lambda other: ("a value", numbers.get(other, other.name)))
            key = (node.target, repr(arguments))
        numbers[node] = known.setdefault(key, len(known))
    return numbers
