"""Regions as graphs of their own, replaced by other code, or folded into one node and back."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import fx, nn

from unflatten.errors import ViewError
from unflatten.paths import Scope
from unflatten.view.contracting import gather, put
from unflatten.view.index import Index
from unflatten.view.order import tell
from unflatten.view.origins import write_origin
from unflatten.view.owners import enclosing
from unflatten.view.ports import Port, inputs_of, outputs_of
from unflatten.view.values import Phase


def extract(index: Index, root: nn.Module, nodes: Sequence[fx.Node], *, named: bool = True) -> fx.GraphModule:
    """A fresh module of copies of some nodes.

    Its inputs are what they take from outside; it returns what is used of them outside: by name, or a single value or
    a tuple where not `named`. Modules that nodes call are shared with the graph's, and so are bodies of operators.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for port in inputs_of(index, nodes):
        if _is_held(root, port.node):
            copies[port.node] = graph.node_copy(port.node)
        else:
            copies[port.node] = graph.placeholder(port.node.name)
            copies[port.node].meta = {key: value for key, value in port.node.meta.items() if key != "desc"}
    for node in nodes:
        made = copies[node] = graph.node_copy(node, copies.__getitem__)
        write_origin(made, index.owners[node].scope, index.owners[node].phase)
    outputs = outputs_of(index, nodes)
    results = [copies[port.node] for port in outputs]
    if named:
        graph.output({port.name: result for port, result in zip(outputs, results, strict=True)})
    else:
        graph.output(results[0] if len(results) == 1 else tuple(results))
    module = fx.GraphModule(root, graph)
    tell(module, index.children)
    return module


def ports_of(index: Index, root: nn.Module, nodes: Sequence[fx.Node]) -> tuple[list[Port], tuple[Port, ...]]:
    """What an extracted module is given and gives."""
    return [port for port in inputs_of(index, nodes) if not _is_held(root, port.node)], outputs_of(index, nodes)


def _is_held(root: nn.Module, node: fx.Node) -> bool:
    """Whether a node stands for a body that a higher-order operator is given."""
    value: Any = root
    if node.op != "get_attr":
        return False
    for name in str(node.target).split("."):
        value = getattr(value, name, None)
    return isinstance(value, nn.Module)


def replace(
    index: Index, root: fx.GraphModule, nodes: Sequence[fx.Node], target: Callable[..., Any], name: str
) -> fx.Node:
    """Puts one call in the place of some nodes.

    Args:
        index: what is known of the graph.
        root: the module that holds it, and is to hold the new one if `target` is a module.
        nodes: the nodes.
        target: takes what the nodes take, in that order; gives what is used of them, a tuple if that is not one.
        name: what a module is called in `root`.

    Raises:
        IllegalMoveError: something has to run between the nodes; nothing is changed.
    """
    if not nodes:
        raise ViewError("there are no nodes to replace")
    given, outputs = ports_of(index, root, nodes)
    if not callable(target):
        raise ViewError(f"a {type(target).__name__} can't be called in the place of a region")
    gather(index, nodes)
    owner = _shared_owner(index, nodes)
    graph, arguments = root.graph, tuple(port.node for port in given)
    calls: list[fx.Node] = []

    def make() -> list[fx.Node]:
        if isinstance(target, nn.Module):
            calls.append(graph.call_module(_hold(root, name, target), arguments))
        else:
            calls.append(graph.call_function(target, arguments))
        if len(outputs) == 1:
            return calls
        return [graph.call_function(operator.getitem, (calls[0], at)) for at in range(len(outputs))]

    made = put(index, nodes, outputs, make)
    for node in [calls[0], *made]:
        write_origin(node, *owner)
    if len(outputs) != 1:
        calls[0].meta["val"] = tuple(port.node.meta.get("val") for port in outputs)
    root.recompile()
    return calls[0]


def _hold(root: fx.GraphModule, name: str, module: nn.Module) -> str:
    """Gives a module to another as a child of a name that is free; gives the name."""
    base = name.replace(".", "_") or "region"
    free = next(each for each in _numbered(base) if not hasattr(root, each))
    root.add_module(free, module)
    return free


def _numbered(base: str) -> Iterator[str]:
    yield base
    yield from (f"{base}_{number}" for number in itertools.count(1))


def _shared_owner(index: Index, nodes: Sequence[fx.Node]) -> tuple[Scope, Phase]:
    owners = [index.owners[node] for node in nodes]
    phase = owners[0].phase if len({owner.phase for owner in owners}) == 1 else Phase.FORWARD
    return enclosing(owner.scope for owner in owners), phase


def inline(root: fx.GraphModule, call: fx.Node) -> list[fx.Node]:
    """Puts the nodes of a called `GraphModule` in the place of the call; the module goes if nothing else uses it.

    Raises:
        ViewError: the node calls no `GraphModule`.
    """
    body = root.get_submodule(str(call.target)) if call.op == "call_module" else None
    if not isinstance(body, fx.GraphModule):
        raise ViewError(f"{call.name!r} calls no GraphModule whose nodes could take its place")
    placeholders = [node for node in body.graph.nodes if node.op == "placeholder"]
    copies: dict[fx.Node, Any] = dict(zip(placeholders, call.args, strict=True))
    made: list[fx.Node] = []
    result: Any = None
    with root.graph.inserting_before(call):
        for node in body.graph.nodes:
            if node.op == "output":
                result = fx.map_arg(node.args[0], copies.__getitem__)
            elif node not in copies:
                copies[node] = root.graph.node_copy(node, copies.__getitem__)
                made.append(copies[node])
    _use(call, result)
    root.graph.erase_node(call)
    if not any(node.target == call.target for node in root.graph.nodes):
        root.delete_submodule(str(call.target))
    root.recompile()
    return made


def _use(call: fx.Node, result: Any) -> None:
    """Gives users of a call what it computed."""
    if isinstance(result, fx.Node):
        call.replace_all_uses_with(result, propagate_meta=False)
        return
    for user in list(call.users):
        if user.target is not operator.getitem:
            raise ViewError(f"{user.name!r} takes all results of {call.name!r} at once")
        user.replace_all_uses_with(result[user.args[1]], propagate_meta=False)
        user.graph.erase_node(user)
