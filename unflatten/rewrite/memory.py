"""Who may write, or share, which memory in any fx graph.

What is not known to be harmless counts as writing all that it is given, and its result as sharing memory with that.
Inputs of the graph are taken to be apart from one another, and attributes of different names too.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn

from unflatten import _torch
from unflatten.flat.operators import HIDDEN_WRITES, Order, facts_of
from unflatten.groups import Groups

Edges = dict[fx.Node, tuple[Any, Any]]
"""The arguments that count for a node, where they are not the ones that it has."""

_IN_PLACE = {operator.setitem, operator.delitem} | {
    getattr(operator, name) for name in operator.__all__ if hasattr(operator, f"__{name}__") and name.startswith("i")
} - {operator.index, operator.inv, operator.invert}
_PURE_MODULES = {operator.__name__, "_operator", math.__name__, builtins.__name__}


def inputs_of(node: fx.Node, edges: Edges) -> list[fx.Node]:
    """The nodes that a node takes, each once."""
    found: dict[fx.Node, None] = {}
    fx.map_arg(edges.get(node, (node.args, node.kwargs)), found.setdefault)
    return list(found)


def written_by(node: fx.Node, edges: Edges) -> list[fx.Node]:
    """The nodes whose memory a node may write."""
    if node.op in ("placeholder", "get_attr", "output"):
        return []
    args, kwargs = edges.get(node, (node.args, node.kwargs))
    if isinstance(node.target, _torch.OpOverload):
        return list(_nodes(_written_by_overload(node.target, args, kwargs)))
    return [] if _is_harmless(node, args, kwargs) else inputs_of(node, edges)


def _written_by_overload(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    facts = facts_of(target)

    def argument(name: str) -> Any:
        at = facts.names.index(name)
        return args[at] if at < len(args) else kwargs.get(name)

    yield from (argument(facts.names[at]) for at in facts.writes)
    if target in HIDDEN_WRITES:
        flag, names = HIDDEN_WRITES[target]
        if argument(flag) is not False:
            yield from map(argument, names)


def _nodes(values: Iterable[Any]) -> Iterator[fx.Node]:
    found: list[fx.Node] = []
    fx.map_arg(tuple(values), found.append)
    yield from found


def has_effect(node: fx.Node) -> bool:
    """Whether a node does something besides computing and writing: drawing random numbers does not count."""
    if not isinstance(node.target, _torch.OpOverload):
        return False
    facts = facts_of(node.target)
    return _torch.has_effects(node.target) or (facts.order is not Order.FREE and not facts.random)


def _is_harmless(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if kwargs.get("inplace") or kwargs.get("out") is not None:
        return False
    if node.op == "call_method":
        name = str(node.target)
        return not name.endswith("_") or (name.endswith("__") and not name.startswith(("__i", "__set", "__del")))
    if node.op == "call_module":
        return _is_harmless_module(node)
    target: Any = node.target
    if isinstance(target, _torch.HigherOrderOperator):
        return not _torch.has_effects(target) and _is_harmless_body(args)
    module, name = getattr(target, "__module__", None) or "", getattr(target, "__name__", "")
    if target in _IN_PLACE or name.endswith("_") or name in ("batch_norm", "instance_norm"):
        return False
    return module in _PURE_MODULES or module.split(".")[0] == "torch"


def _attribute(node: fx.Node) -> Any:
    """What an owning module holds under a node's target, None where that can't be told."""
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name, None)
    return value


def _is_harmless_module(node: fx.Node) -> bool:
    module = _attribute(node)
    if not isinstance(module, nn.Module) or not type(module).__module__.startswith("torch.nn."):
        return False
    return not any(
        getattr(inner, "inplace", False) or (inner.training and inner._buffers) for inner in module.modules()
    )


def _is_harmless_body(args: tuple[Any, ...]) -> bool:
    bodies = [_attribute(argument) for argument in _nodes(args) if argument.op == "get_attr"]
    graphs = [body for body in bodies if isinstance(body, fx.GraphModule)]
    return bool(graphs) and not any(
        written_by(inner, {})
        for graph in graphs
        for module in graph.modules()
        if isinstance(module, fx.GraphModule)
        for inner in module.graph.nodes
    )


@dataclass(slots=True)
class Memory:
    """The memory of a graph: groups of nodes that may share some, and the writes.

    Attributes:
        graph: the graph.
        edges: the arguments that count.
        position: of each node.
        writes: the nodes that write, each with the groups that it may write.
    """

    graph: fx.Graph
    edges: Edges
    position: dict[fx.Node, int] = field(default_factory=dict)
    writes: list[tuple[fx.Node, set[Any]]] = field(default_factory=list)
    _groups: Groups = field(default_factory=Groups)
    _users: dict[fx.Node, list[fx.Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for at, node in enumerate(self.graph.nodes):
            self.position[node] = at
            if node.op == "get_attr":
                self._groups.join(node, ("attribute", node.target))
            for other in inputs_of(node, self.edges):
                self._users.setdefault(other, []).append(node)
            for other in self._shared(node):
                self._groups.join(node, other)
        for node in self.graph.nodes:
            written = {self.group(other) for other in written_by(node, self.edges)}
            if written:
                self.writes.append((node, written))

    def _shared(self, node: fx.Node) -> list[fx.Node]:
        """The inputs that a node's result may share memory with."""
        if isinstance(node.target, _torch.OpOverload):
            facts = facts_of(node.target)
            args, kwargs = self.edges.get(node, (node.args, node.kwargs))
            return list(_nodes(args[at] if at < len(args) else kwargs.get(facts.names[at]) for at in facts.views))
        return inputs_of(node, self.edges)

    def group(self, node: fx.Node) -> Hashable:
        """What stands for all nodes that may share memory with one."""
        return self._groups.find(node)

    def users(self, node: fx.Node) -> list[fx.Node]:
        """The nodes that take another."""
        return self._users.get(node, [])

    def last_use(self, node: fx.Node) -> int:
        """The position of the last node that may look at a node's memory through its result."""
        last, seen, pending = self.position[node], set(), [node]
        while pending:
            made = pending.pop()
            if made in seen:
                continue
            seen.add(made)
            for user in self.users(made):
                last = max(last, self.position[user])
                if made in self._shared(user):
                    pending.append(user)
        return last

    def write_between(self, node: fx.Node, chain: Iterable[fx.Node]) -> fx.Node | None:
        """The first node after another, and no later than its last use, that may write the memory of a chain."""
        groups = {self.group(value) for value in chain}
        first, last = self.position[node], self.last_use(node)
        found = (writer for writer, written in self.writes if written & groups)
        return next((writer for writer in found if first < self.position[writer] <= last), None)
