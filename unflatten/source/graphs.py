"""Graphs that operators such as `cond` are given: each becomes a function of the written file."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from unflatten.code.body import Apply, Body, Local, Parameter
from unflatten.errors import SourceError
from unflatten.flat.values import SubGraph
from unflatten.grouping.naming import natural
from unflatten.source.ordering import ordered
from unflatten.source.text import identifier, unused
from unflatten.source.tidying import tidied


@dataclass(slots=True)
class Graphs:
    """The functions of a file.

    Attributes:
        bodies: what each does, by name, in the order in which they are met.
        names: the name of each, by what it does.
        device: the device of everything, None where there are several.
        taken: names that the file has for its classes.
    """

    bodies: dict[str, Body] = field(default_factory=dict)
    names: dict[Hashable, str] = field(default_factory=dict)
    device: torch.device | None = None
    taken: frozenset[str] = frozenset()

    def name(self, graph: fx.GraphModule, base: str) -> str:
        """The function of a graph.

        Raises:
            SourceError: it holds something that is no operator.
        """
        body = body_of(graph, self.device)
        key = body.key()
        if key not in self.names:
            name = unused(identifier(natural(base)[0], "graph"), {*self.bodies, *self.taken})
            self.names[key], self.bodies[name] = name, body
        return self.names[key]


def body_of(graph: fx.GraphModule, device: torch.device | None) -> Body:
    """A graph as a body."""
    names: list[str] = []
    values: dict[fx.Node, Any] = {}
    parameters: list[Parameter] = []
    steps: list[Apply] = []
    result: Any = None
    source: Local | None = None
    for node in graph.graph.nodes:
        if node.op == "output":
            result = fx.map_arg(node.args[0], lambda used: values[used])
            continue
        if node.op == "get_attr":
            values[node] = _held(graph, node)
            continue
        local = values[node] = Local(len(names))
        base = natural(str(node.name))[0]
        if node.op == "placeholder":
            name = unused(identifier(base), {parameter.name for parameter in parameters})
            parameters.append(Parameter(name, ((local.index, ()),)))
            names.append(name)
            if source is None and isinstance(node.meta.get("val"), torch.Tensor):
                source = local
        elif node.op == "call_function":
            names.append(base)
            args, kwargs = (fx.map_arg(given, lambda used: values[used]) for given in (node.args, node.kwargs))
            steps.append(Apply(local.index, node.target, args, kwargs))
        else:
            raise SourceError(f"a graph inside of the program has a {node.op} of {node.target}, which is no operator")
    body = Body(tuple(parameters), True, tuple(steps), result, tuple(names))
    return ordered(tidied(body, source, device), lambda _: True)


def _held(graph: fx.GraphModule, node: fx.Node) -> SubGraph:
    value: Any = graph
    for name in str(node.target).split("."):
        value = getattr(value, name)
    if not isinstance(value, fx.GraphModule):
        raise SourceError(
            f"a graph inside of the program holds {node.target}, a {type(value).__name__}; make it a buffer of the "
            "module, or an operand of the branch or loop"
        )
    return SubGraph(str(node.target), value)
