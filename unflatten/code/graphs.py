"""Bodies as fx graphs, for looking at and for passes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from unflatten import _torch
from unflatten._torch import TreeSpec
from unflatten.code.body import Apply, Body, Held, Invoke, Local
from unflatten.code.nesting import Access, Attr, Item, Made, Rebuilt
from unflatten.fields import make
from unflatten.flat.values import FlatNode, Mode, SubGraph
from unflatten.regions import Region

Origin = FlatNode | Region


def graph_of(body: Body, origins: tuple[Origin, ...] = ()) -> fx.Graph:
    """An fx graph of a body.

    Args:
        body: the body.
        origins: where each step came from, for the metadata of its node; empty where that was lost.
    """
    return _GraphWriter(body, origins).write()


class _GraphWriter:
    def __init__(self, body: Body, origins: tuple[Origin, ...]) -> None:
        self.body = body
        self.origins: tuple[Origin | None, ...] = origins or (None,) * len(body.steps)
        self.graph = fx.Graph()
        self.env: dict[int, fx.Node] = {}
        self.held: dict[Held, fx.Node] = {}

    def write(self) -> fx.Graph:
        for parameter in self.body.parameters:
            node = self.graph.placeholder(parameter.name)
            for local, access in parameter.leaves:
                self.env[local] = self.reach(node, access)
        for step, origin in zip(self.body.steps, self.origins, strict=True):
            with _Modes(self.graph, step.modes):
                if isinstance(step, Apply):
                    self.apply(step, origin)
                else:
                    self.invoke(step, origin)
        self.graph.output(self.argument(self.body.result))
        return self.graph

    def apply(self, step: Apply, origin: Origin | None) -> None:
        args, kwargs = self.argument(step.args), self.argument(step.kwargs)
        node = self.graph.create_node("call_function", step.target, args, kwargs, name=self.body.names[step.out])
        if isinstance(origin, FlatNode):
            node.meta = dict(origin.meta)
        self.env[step.out] = node

    def invoke(self, step: Invoke, origin: Origin | None) -> None:
        target = ".".join(part.name for part in step.module.steps)
        node = self.graph.create_node("call_module", target, self.argument(step.args), self.argument(step.kwargs))
        values: tuple[Any, ...] = ()
        if isinstance(origin, Region):
            values = tuple(value.meta.get("val") for value in origin.outputs)
            node.meta["val"] = values[0] if len(values) == 1 else values
        for number, (local, access) in enumerate(step.outs):
            self.env[local] = self.reach(node, access)
            if access and number < len(values):
                self.env[local].meta["val"] = values[number]

    def reach(self, node: fx.Node, access: Access) -> fx.Node:
        for step in access:
            if isinstance(step, Item):
                node = self.graph.call_function(operator.getitem, (node, step.key))
            elif isinstance(step, Attr):
                node = self.graph.call_function(getattr, (node, step.name))
            else:
                whole = self.graph.call_function(_torch.tree_leaves, (node,))
                node = self.graph.call_function(operator.getitem, (whole, step.index))
        return node

    def argument(self, value: Any) -> Any:
        """An argument with nodes in place of locals."""
        if isinstance(value, Local):
            return self.env[value.index]
        if isinstance(value, Held):
            if value not in self.held:
                self.held[value] = self.graph.create_node("get_attr", ".".join(step.name for step in value.steps))
            return self.held[value]
        if isinstance(value, SubGraph):
            node = self.graph.create_node("get_attr", value.name)
            node.meta["body"] = value.module
            return node
        if isinstance(value, Rebuilt | Made):
            return self.built(value)
        if isinstance(value, tuple | list):
            return type(value)(self.argument(item) for item in value)
        if isinstance(value, Mapping):
            return {key: self.argument(item) for key, item in value.items()}
        return value

    def built(self, value: Rebuilt | Made) -> fx.Node:
        """A container or object that an fx graph has no constant for."""
        if isinstance(value, Made):
            return self.graph.call_function(Making(value.kind), (), self.argument(value.fields))
        leaves = tuple(self.argument(leaf) for leaf in value.leaves)
        return self.graph.call_function(Rebuilding(value.spec), leaves)


@dataclass(frozen=True)
class Making:
    """Makes an object of a class from its fields. The class is no argument: the code of a graph can't hold one."""

    kind: type

    @property
    def __name__(self) -> str:
        return f"make_{self.kind.__name__}"

    def __call__(self, **fields: Any) -> Any:
        """The object."""
        return make(self.kind, **fields)


@dataclass(frozen=True)
class Rebuilding:
    """Puts leaves together as a spec says, which the code of a graph can't hold either."""

    spec: TreeSpec

    @property
    def __name__(self) -> str:
        return "rebuild"

    def __call__(self, *leaves: Any) -> Any:
        """The container."""
        return _torch.rebuild(list(leaves), self.spec)


class _Modes:
    """Puts the nodes that enter and leave modes around those made inside."""

    def __init__(self, graph: fx.Graph, modes: tuple[Mode, ...]) -> None:
        self.graph = graph
        self.modes = modes
        self.entered: list[fx.Node] = []

    def __enter__(self) -> None:
        for mode in self.modes:
            if mode.kind == "grad":
                self.graph.call_function(_torch.SET_GRAD, (mode.value,))
            else:
                args = (mode.kind.removeprefix("autocast "), *mode.value)
                self.entered.append(self.graph.call_function(_torch.ENTER_AUTOCAST, args))

    def __exit__(self, *error: object) -> None:
        for node in reversed(self.entered):
            self.graph.call_function(_torch.EXIT_AUTOCAST, (node,))
        for mode in self.modes:
            if mode.kind == "grad":
                self.graph.call_function(_torch.SET_GRAD, (not mode.value,))
