"""Giving a node of any fx graph another function.

Legality: the function has to give what the node gave, which can't be seen beforehand; what it is given has to come
before the node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import fx

from unflatten.errors import RewriteError
from unflatten.rewrite.rewiring import Rewiring, graph_of, node_of, recompile


@dataclass(frozen=True, eq=False, slots=True)
class NodeSwap:
    """A node that was given another function.

    Attributes:
        where: the graph, or the module that holds it.
        node: the node.
        function: what it computes now.
        before: its kind, target, arguments and keywords before.
    """

    where: fx.GraphModule | fx.Graph
    node: fx.Node
    function: Callable[..., Any]
    before: tuple[str, Any, tuple[Any, ...], dict[str, Any]]

    def undo(self) -> fx.Node:
        """Gives the node back what it had.

        Raises:
            RewriteError: it has yet another function by now.
        """
        if self.node.target is not self.function:
            raise RewriteError(f"node {self.node.name!r} was given another function since: undo that first")
        self.node.op, self.node.target, args, kwargs = self.before
        Rewiring.of(graph_of(self.where)).assign(self.node, args, kwargs)
        recompile(self.where)
        return self.node


def swap_node(
    where: fx.GraphModule | fx.Graph,
    node: fx.Node | str,
    function: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
) -> NodeSwap:
    """Gives a node another function, and other arguments if there are any given.

    The node keeps its name, its users and its metadata, so that the function has to give the same structure.

    Args:
        where: the graph, or the module that holds it, which is compiled again.
        node: the node or its name.
        function: what it computes.
        args: the arguments; those that the node has where None.

    Raises:
        UnknownPathError: the graph has no such node.
        RewriteError: the node computes nothing, `function` can't be called, or an argument comes after the node.

    Example:
        >>> import torch
        >>> from unflatten import swap_node
        >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
        >>> swapped = swap_node(program.graph_module, "relu", torch.neg)
        >>> program.graph_module(torch.ones(2))[0].tolist()
        [-1.0, -1.0]
    """
    graph = graph_of(where)
    node = node_of(graph, node)
    _check(graph, node, function, args)
    rewiring = Rewiring.of(graph)
    old_args, old_kwargs = rewiring.arguments(node)
    swapped = NodeSwap(where, node, function, (node.op, node.target, old_args, old_kwargs))
    node.op, node.target = "call_function", function
    if args is not None:
        rewiring.assign(node, args, {})
    recompile(where)
    return swapped


def _check(graph: fx.Graph, node: fx.Node, function: object, args: tuple[Any, ...] | None) -> None:
    if node.op not in ("call_function", "call_method", "call_module"):
        raise RewriteError(f"node {node.name!r} of kind {node.op!r} computes nothing that could be replaced")
    if not callable(function):
        raise RewriteError(f"a {type(function).__name__} can't be called in place of node {node.name!r}")
    earlier: set[fx.Node] = set()
    for other in graph.nodes:
        if other is node:
            break
        earlier.add(other)
    given: list[fx.Node] = []
    fx.map_arg(args, given.append)
    late = [other.name for other in given if other not in earlier]
    if late:
        raise RewriteError(f"{', '.join(late)} can't be given to node {node.name!r}: not in its graph before it")
