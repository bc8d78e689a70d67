"""Leaving out a node of any fx graph: its users take the input of the same structure.

Legality: besides what holds for `choosing`, with what `meta["val"]` says of shape, dtype and device,

- the node may not write memory or act on the world: others may rely on that. What a callable does that is no operator
  with a schema is judged by its name; one that is not torch's or Python's own is taken to write all that it is given;
- nothing may write the memory of the node's result, or of what stands for it, after the node and before the last
  use: through the result as it was, users saw the one without the other;
- a node with several results is only taken apart by `getitem`, and each result that is used has its own input.

Strides are not compared. The node stays and runs, random numbers included, until dead code is removed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from unflatten import _torch
from unflatten.calls.specs import AnySpec, Spec, described
from unflatten.errors import BypassError
from unflatten.flat.operators import facts_of
from unflatten.rewrite.choosing import Chooser, Offer, Using
from unflatten.rewrite.memory import has_effect, written_by
from unflatten.rewrite.rewiring import Rewiring, graph_of, node_of, recompile


@dataclass(frozen=True, eq=False, slots=True)
class NodeBypass:
    """A node that was left out.

    Attributes:
        where: the graph, or the module that holds it.
        node: the node. It stays in the graph, without users.
        pairs: for each result that is used, the node that gave it and the one that stands for it.
    """

    where: fx.GraphModule | fx.Graph
    node: fx.Node
    pairs: dict[fx.Node, fx.Node]

    def undo(self) -> fx.Node:
        """Gives the node its users back.

        Raises:
            BypassError: it has them already, or it was removed from the graph, as dead code say.
        """
        Rewiring.of(graph_of(self.where)).remove(list(self.pairs))
        recompile(self.where)
        return self.node


def bypass_node(where: fx.GraphModule | fx.Graph, node: fx.Node | str, *, using: Using = None) -> NodeBypass:
    """Leaves a node out: its users take the input that has the same structure.

    The node itself stays, so that it can be put back; `graph.eliminate_dead_code()` makes that final. Nodes can be
    bypassed and put back in any order: which ones are bypassed says what the graph is.

    Args:
        where: the graph, or the module that holds it, which is compiled again.
        node: the node or its name.
        using: the name or position of the argument to take, or the name of the node that it is, where several have the
            structure of the result.

    Raises:
        UnknownPathError: the graph has no such node.
        AmbiguousBypassError: several inputs have the structure of the result; the message names them.
        BypassError: no input has it, or the node can't be left out without changing something else.

    Example:
        >>> import torch
        >>> from unflatten import bypass_node
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()), (torch.ones(2),))
        >>> module = program.graph_module
        >>> without = bypass_node(module, "relu")
        >>> torch.equal(module(-torch.ones(2))[0], torch.tanh(-torch.ones(2)))
        True
    """
    graph = graph_of(where)
    node = node_of(graph, node)
    rewiring = Rewiring.of(graph)
    _refuse_effects(node, rewiring)
    pairs = _pairs(node, rewiring, Chooser(f"node {node.name!r} ({_target(node)})", using))
    rewiring.add(pairs)
    recompile(where)
    return NodeBypass(where, node, pairs)


def _pairs(node: fx.Node, rewiring: Rewiring, chooser: Chooser) -> dict[fx.Node, fx.Node]:
    """The inputs that stand for what a node gives."""
    inputs = dict(_offers(node, rewiring))
    chosen: dict[fx.Node, Offer] = {}
    for result, value in _results(node, rewiring, chooser.where):
        offers = [offer for other, offer in inputs.items() if _on_same_device(other, value)]
        offer = chooser.choose(offers, [described(value)], "the result" if result is node else f"result {result.name}")
        if offer is not None:
            chosen[result] = offer
    chooser.finish(list(inputs.values()))
    return {
        result: next(other for other, offer in inputs.items() if offer is found) for result, found in chosen.items()
    }


def _refuse_effects(node: fx.Node, rewiring: Rewiring) -> None:
    if node.op not in ("call_function", "call_method", "call_module"):
        raise BypassError(f"can't bypass node {node.name!r}: a node of kind {node.op!r} computes nothing")
    parts = (user for user in rewiring.users(node) if user.target is operator.getitem)
    if node in rewiring.through or any(part in rewiring.through for part in parts):
        raise BypassError(f"node {node.name!r} is bypassed already")
    written = written_by(node, rewiring.edges)
    if written:
        names = ", ".join(repr(other.name) for other in written)
        raise BypassError(f"can't bypass node {node.name!r} ({_target(node)}): it may write the memory of {names}")
    if has_effect(node):
        raise BypassError(f"can't bypass node {node.name!r} ({_target(node)}): it has an effect besides its result")


def _target(node: fx.Node) -> str:
    return str(node.target) if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def _results(node: fx.Node, rewiring: Rewiring, where: str) -> Iterator[tuple[fx.Node, Any]]:
    """The nodes that give the results of a node, itself or the ones that take it apart, with what they are."""
    if "val" not in node.meta:
        raise BypassError(
            f"can't bypass {where}: nothing says what it gives. Run FakeTensorProp, which sets meta['val']."
        )
    value = node.meta["val"]
    if not isinstance(value, tuple | list):
        yield node, value
        return
    users = rewiring.users(node)
    whole = [user.name for user in users if user.target is not operator.getitem]
    if whole:
        raise BypassError(f"can't bypass {where}: {', '.join(whole)} takes all of its results at once")
    used = [user for user in users if rewiring.users(user)]
    if not used:
        raise BypassError(f"can't bypass {where}: nothing uses its results")
    for user in used:
        at: Any = user.args[1]
        yield user, value[at]


def _on_same_device(node: fx.Node, value: Any) -> bool:
    other = node.meta.get("val")
    if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
        return value.device == other.device
    return True


def _offers(node: fx.Node, rewiring: Rewiring) -> Iterator[tuple[fx.Node, Offer]]:
    """The inputs of a node, each once."""
    found: dict[fx.Node, list[tuple[str, int, str]]] = {}
    for name, position, value in _arguments(node, rewiring):
        if isinstance(value, fx.Node):
            found.setdefault(value, []).append((name or value.name, position, name or value.name))
        elif isinstance(value, tuple | list):
            for at, item in enumerate(value):
                if isinstance(item, fx.Node):
                    found.setdefault(item, []).append((name, position, f"{name}[{at}]" if name else item.name))
    for other, places in found.items():
        spec: Spec = described(other.meta["val"]) if "val" in other.meta else AnySpec()
        others = tuple(label for _, _, label in places[1:])
        yield other, Offer(*places[0], specs=(spec,), aliases=(other.name, *others))


def _arguments(node: fx.Node, rewiring: Rewiring) -> Iterator[tuple[str, int, Any]]:
    """The arguments of a node with the names, where an operator has them, and positions of their parameters."""
    args, kwargs = rewiring.arguments(node)
    names = facts_of(node.target).names if isinstance(node.target, _torch.OpOverload) else ()
    for at, value in enumerate(args):
        yield names[at] if at < len(names) else "", at, value
    for key, value in kwargs.items():
        yield key, names.index(key) if key in names else -1, value
