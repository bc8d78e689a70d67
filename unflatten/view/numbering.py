"""Numbers for values: nodes that compute the same from the same inputs have the same number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import fx


def numbered(nodes: Iterable[fx.Node], known: dict[Any, int], leaf: Callable[[fx.Node], Any]) -> dict[fx.Node, int]:
    """Numbers nodes, which come in an order in which they can run.

    Args:
        nodes: the nodes; others that they take count as unlike anything.
        known: the numbers so far, which grows; two graphs that share it can be compared.
        leaf: what stands for a node that is no call of a function.
    """
    numbers: dict[fx.Node, int] = {}
    for node in nodes:
        key: Any = leaf(node)
        if node.op == "call_function":
            arguments = fx.map_arg((node.args, node.kwargs), lambda other: ("a value", numbers.get(other, other.name)))
            key = (node.target, repr(arguments))
        numbers[node] = known.setdefault(key, len(known))
    return numbers
