"""One collective in the place of several equal ones, on their tensors flattened and put together.

Legality: no collective of a bucket needs the result of another, and the graph with each bucket as one node still has
an order. Only collectives with a single wait, and sizes that are known, are put together.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from unflatten.errors import EmptySelectionError, IllegalMoveError, ViewError
from unflatten.paths import ROOT
from unflatten.view.constraints import Constraints, is_wait
from unflatten.view.contracting import gather
from unflatten.view.index import Index
from unflatten.view.origins import write_origin
from unflatten.view.owners import enclosing
from unflatten.view.values import Owner

_c10d = torch.ops._c10d_functional
_aten = torch.ops.aten
_KNOWN = {
    "all_gather_into_tensor": _c10d.all_gather_into_tensor.default,
    "reduce_scatter_tensor": _c10d.reduce_scatter_tensor.default,
    "all_reduce": _c10d.all_reduce.default,
}


@dataclass(frozen=True, slots=True)
class _Member:
    """A collective: its start, its wait, and the shapes of what goes in and comes out."""

    start: fx.Node
    wait: fx.Node

    @property
    def source(self) -> fx.Node:
        found: fx.Node = self.start.args[0]  # type: ignore[assignment]
        return found

    @property
    def shape(self) -> list[int]:
        return list(self.start.meta["val"].shape)


def bucket(index: Index, root: fx.GraphModule, parts: Sequence[Sequence[fx.Node]], op: str | None) -> list[fx.Node]:
    """Puts the equal collectives of each part together; gives the new ones.

    Raises:
        ViewError: a collective is in two parts, or can't be put together with others; nothing is changed.
        EmptySelectionError: there are none.
        IllegalMoveError: one needs the result of another; nothing is changed.
    """
    if op is not None and op not in _KNOWN:
        raise ViewError(f"{op!r} is no collective that can be put together: {', '.join(_KNOWN)} are")
    targets = set(_KNOWN.values()) if op is None else {_KNOWN[op]}
    chosen = [[node for node in part if node.target in targets] for part in parts]
    empty = [at for at, nodes in enumerate(chosen) if not nodes]
    if empty or not chosen:
        raise EmptySelectionError(f"{op or 'a collective'} is in none of the nodes of part {empty or 'list'}")
    _check_once(chosen)
    groups = [group for nodes in chosen for group in _groups(index, nodes) if len(group) > 1]
    _check_order(Constraints.of(index, root.graph, collectives=False), groups)
    made = []
    for group in groups:
        index, start = _merge(index, root.graph, group)
        made.append(start)
    root.recompile()
    return made


def _check_once(chosen: Sequence[Sequence[fx.Node]]) -> None:
    seen: set[fx.Node] = set()
    for node in (node for nodes in chosen for node in nodes):
        if node in seen:
            raise ViewError(f"{node.name!r} is in two of the parts: each collective can be in one bucket only")
        seen.add(node)


def _groups(index: Index, nodes: Iterable[fx.Node]) -> list[list[_Member]]:
    groups: dict[Any, list[_Member]] = {}
    for node in nodes:
        waits = [user for user in node.users if is_wait(user)]
        value = node.meta.get("val")
        if len(waits) != 1 or len(node.users) != 1:
            raise ViewError(f"{node.name!r} has {len(node.users)} users; to be put together it needs one, its wait")
        if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
            raise ViewError(f"{node.name!r} has a shape that the graph does not tell, or that may vary")
        key = (node.target, node.args[1:], value.dtype, value.device, index.owners[node].phase)
        groups.setdefault(key, []).append(_Member(node, waits[0]))
    return list(groups.values())


def _check_order(constraints: Constraints, groups: Sequence[Sequence[_Member]]) -> None:
    """Checks that the graph has an order if each bucket is one node."""
    stands: dict[fx.Node, fx.Node] = {}
    for group in groups:
        for member in group:
            stands[member.start], stands[member.wait] = group[0].start, group[0].wait
    nodes = constraints.index.nodes
    before = {stands.get(node, node): 0 for node in nodes}
    after: dict[fx.Node, list[fx.Node]] = {node: [] for node in before}
    for node in nodes:
        for other in constraints.before[node]:
            first, second = stands.get(other, other), stands.get(node, node)
            if first is second:
                raise IllegalMoveError(f"{node.name!r} needs {other.name!r}, so they can't be one")
            after[first].append(second)
            before[second] += 1
    ready = [node for node, count in before.items() if not count]
    done = 0
    while ready:
        node = ready.pop()
        done += 1
        for other in after[node]:
            before[other] -= 1
            if not before[other]:
                ready.append(other)
    if done < len(before):
        starts = [[member.start for member in group] for group in groups]
        stuck = [nodes for nodes in starts if before[nodes[0]]] or starts
        successors = [other for start in stuck[0] for other in constraints.after[start]]
        raise IllegalMoveError(f"these collectives can't be one: {constraints.reason(successors, stuck[0])}")


def _merge(index: Index, graph: fx.Graph, group: Sequence[_Member]) -> tuple[Index, fx.Node]:
    starts, waits = [member.start for member in group], [member.wait for member in group]
    gather(index, starts, collectives=False)
    index = _ordered(index, graph)
    gather(index, waits, collectives=False)
    index = _ordered(index, graph)
    first = min(starts, key=index.position.__getitem__)
    scope = enclosing(index.owners[start].scope for start in starts)
    path = scope[-1].path if scope else ROOT
    builder = _Builder(index, graph, replace(index.owners[first], scope=scope, path=path))
    size = int(first.args[-2]) if first.target is not _KNOWN["all_reduce"] else 1  # type: ignore[arg-type]
    with graph.inserting_before(first):
        start = builder.start(group, size)
    with graph.inserting_before(min(waits, key=index.position.__getitem__)):
        parts = builder.parts(start, group, size)
    for member, part in zip(group, parts, strict=True):
        member.wait.replace_all_uses_with(part, propagate_meta=False)
        graph.erase_node(member.wait)
        graph.erase_node(member.start)
    owners = {**index.owners, **builder.made}
    return _ordered(replace(index, owners=owners), graph), start


def _ordered(index: Index, graph: fx.Graph) -> Index:
    nodes = list(graph.nodes)
    return replace(index, nodes=nodes, position={node: at for at, node in enumerate(nodes)})


@dataclass(slots=True)
class _Builder:
    """Makes the nodes of a bucket.

    Attributes:
        index: what is known of the graph.
        graph: the graph.
        owner: the owner of what belongs to all members.
        made: the nodes, with their owners.
    """

    index: Index
    graph: fx.Graph
    owner: Owner
    made: dict[fx.Node, Owner] = field(default_factory=dict)

    def call(self, target: Any, args: tuple[Any, ...], value: Any, origin: fx.Node | None = None) -> fx.Node:
        node = self.graph.call_function(target, args)
        node.meta["val"] = value
        owner = self.made[node] = self.owner if origin is None else self.index.owners[origin]
        write_origin(node, owner.scope, owner.phase)
        return node

    def reshape(self, node: fx.Node, shape: list[int], origin: fx.Node | None = None) -> fx.Node:
        value = node.meta["val"]
        whole = [math.prod(value.shape) // max(1, -math.prod(shape)) if size == -1 else size for size in shape]
        return self.call(_aten.reshape.default, (node, shape), value.new_empty(whole), origin)

    def start(self, group: Sequence[_Member], size: int) -> fx.Node:
        """What goes in: flat for gathering and reducing, a row for each rank for scattering."""
        first = group[0].start
        scatter = first.target is _KNOWN["reduce_scatter_tensor"]
        flat = [self.reshape(member.source, [size, -1] if scatter else [-1], member.start) for member in group]
        values = [node.meta["val"] for node in flat]
        total = sum(value.shape[-1] for value in values)
        shape = [size, total] if scatter else [total]
        whole = self.call(_aten.cat.default, (flat, len(shape) - 1), values[0].new_empty(shape))
        if scatter:
            whole = self.reshape(whole, [-1])
        gathered = size * total if first.target is _KNOWN["all_gather_into_tensor"] else total
        return self.call(first.target, (whole, *first.args[1:]), first.meta["val"].new_empty([gathered]))

    def parts(self, start: fx.Node, group: Sequence[_Member], size: int) -> list[fx.Node]:
        """What comes out, one tensor for each collective."""
        gathers = start.target is _KNOWN["all_gather_into_tensor"]
        whole = self.call(_c10d.wait_tensor.default, (start,), start.meta["val"])
        sizes = [math.prod(member.shape) // (size if gathers else 1) for member in group]
        if gathers:
            whole = self.reshape(whole, [size, -1])
        value = whole.meta["val"]
        pieces = [value.new_empty([*value.shape[:-1], each]) for each in sizes]
        split = self.call(_aten.split_with_sizes.default, (whole, sizes, int(gathers)), pieces)
        return [
            self.reshape(self.call(operator.getitem, (split, at), pieces[at], member.wait), member.shape, member.wait)
            for at, member in enumerate(group)
        ]
