"""Operators and graphs as plain data, so that modules made of them can be pickled.

Torch's operators don't pickle, and a pickled `GraphModule` is traced again when it is loaded, which
higher-order operators don't survive. Here operators go by name and graphs node by node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx

from unflatten import _torch
from unflatten._torch import TreeSpec


def pack_target(target: Callable[..., Any]) -> Any:
    """A picklable stand-in for a callable."""
    if isinstance(target, _torch.OpOverload):
        return "overload", target.namespace, target._opname, target._overloadname
    if isinstance(target, _torch.HigherOrderOperator):
        return "higher_order", str(target.name())  # type: ignore[no-untyped-call]
    return "function", target


def unpack_target(packed: Any) -> Callable[..., Any]:
    """The callable that `pack_target` packed."""
    kind, *names = packed
    if kind == "function":
        return cast("Callable[..., Any]", names[0])
    owner: Any = torch.ops.higher_order if kind == "higher_order" else torch.ops
    for name in names:
        owner = getattr(owner, name)
    return cast("Callable[..., Any]", owner)


def pack_spec(spec: TreeSpec) -> Any:
    """A picklable stand-in for a tree spec; torch's own pickling of them warns."""
    if spec.is_leaf():
        return None
    return spec.type, spec.context, [pack_spec(child) for child in spec.children()]


def unpack_spec(packed: Any) -> TreeSpec:
    """The tree spec that `pack_spec` packed."""
    if packed is None:
        return _torch.LEAF
    kind, context, children = packed
    return TreeSpec(kind, context, [unpack_spec(child) for child in children])


@dataclass(frozen=True, slots=True)
class _Ref:
    """A node of a packed graph, by number."""

    number: int


def pack_graph(module: fx.GraphModule) -> Any:
    """A picklable stand-in for a graph module: its nodes and what they read from it."""
    number: dict[fx.Node, _Ref] = {}
    nodes, held = [], {}
    for node in module.graph.nodes:
        target = pack_target(node.target) if node.op == "call_function" else node.target
        if node.op in ("get_attr", "call_module"):
            held[node.target] = _pack_held(module, node.target)
        args, kwargs = fx.map_arg((node.args, node.kwargs), number.__getitem__)  # type: ignore[arg-type]
        nodes.append((node.op, node.name, target, args, dict(kwargs)))
        number[node] = _Ref(len(number))
    return nodes, held


def _pack_held(module: fx.GraphModule, target: str) -> Any:
    value: Any = module
    for name in target.split("."):
        value = getattr(value, name)
    return ("graph", pack_graph(value)) if isinstance(value, fx.GraphModule) else ("value", value)


def unpack_graph(packed: Any) -> fx.GraphModule:
    """The graph module that `pack_graph` packed."""
    nodes, held = packed
    owner = torch.nn.Module()
    for target, (kind, value) in held.items():
        *path, last = target.split(".")
        inner = owner
        for name in path:
            if name not in inner._modules:
                inner.add_module(name, torch.nn.Module())
            inner = inner.get_submodule(name)
        setattr(inner, last, unpack_graph(value) if kind == "graph" else value)
    graph = fx.Graph()
    made: list[fx.Node] = []

    def node_of(argument: Any) -> Any:
        return made[argument.number] if isinstance(argument, _Ref) else argument

    for op, name, target, args, kwargs in nodes:
        real = unpack_target(target) if op == "call_function" else target
        mapped = _torch.map_aggregate(args, node_of), _torch.map_aggregate(kwargs, node_of)
        made.append(graph.create_node(op, real, *mapped, name=name))
    return fx.GraphModule(owner, graph)
