"""Which nodes are backward and which are computed again for it: by dataflow first, by tags where that leaves it open.

Whatever takes something that was made from a tangent is backward. What the results of the forward need is forward.
The rest feeds the backward alone: tags tell, or its stack, or its being a copy of what the forward computes.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from unflatten.view.metadata import Metadata
from unflatten.view.numbering import numbered
from unflatten.view.origins import KEY
from unflatten.view.roles import Roles
from unflatten.view.stacks import FORWARD_STACK, STACK
from unflatten.view.values import Kind, Phase

_aten = torch.ops.aten
_COLLECTIVE = ("_c10d_functional", "c10d_functional", "_dtensor")
_KEEPS = {_aten.detach.default, _aten.alias.default}
_IDLE = ("placeholder", "get_attr", "output")
_ONES = {_aten.ones_like.default, _aten.full_like.default, _aten.full.default, _aten.ones.default, torch.ones_like}


def phases_of(
    nodes: Sequence[fx.Node], position: Mapping[fx.Node, int], roles: Roles, metadata: Metadata
) -> tuple[list[Phase], dict[fx.Node, fx.Node]]:
    """The phase of each node of a graph, in linear time; and of nodes computed again, what they compute again."""
    after = _after_seeds(nodes, roles)
    needed = _needed_by_forward(nodes, roles, after, metadata)
    backward_only = bool(after) and all(node in after for node in roles.results) and bool(roles.tangents)
    partitioned = any(tag is not None for tag in metadata.tags)
    again = {} if partitioned or not after else _repeated(nodes, needed, after, metadata)
    rest = _Rest(
        tagged=partitioned or any(flag is not None for flag in metadata.flags),
        backward_only=backward_only,
        stacked=any(metadata.stacks),
        seeded=bool(after),
        again=again,
    )
    phases: list[Phase] = []
    told = zip(nodes, metadata.ops, map(after.__contains__, nodes), map(needed.__contains__, nodes), strict=True)
    for node, op, is_after, is_needed in told:
        if is_after:
            phases.append(Phase.BACKWARD)
        elif op in _IDLE or (is_needed and not backward_only):
            phases.append(Phase.FORWARD)
        elif node.target is operator.getitem and node.all_input_nodes:
            phases.append(phases[position[node.all_input_nodes[0]]])
        else:
            phases.append(rest.phase(node))
    return phases, again


@dataclass(frozen=True, slots=True)
class _Rest:
    """What tells the phase of a node that only the backward needs, and that no tangent reaches."""

    tagged: bool
    backward_only: bool
    stacked: bool
    seeded: bool
    again: Mapping[fx.Node, fx.Node]

    def phase(self, node: fx.Node) -> Phase:
        """The phase of a node."""
        if node in self.again:
            return Phase.RECOMPUTE
        if node.meta.get(KEY) is not None:  # a recorded call of the forward, unless the record tells another phase
            return Phase.FORWARD
        if self.tagged:
            return _by_tags(node, backward_only=self.backward_only)
        stacked = self.stacked and node.meta.get(STACK)
        return Phase.BACKWARD if self.seeded and (self.again or not stacked) else Phase.FORWARD


def _by_tags(node: fx.Node, *, backward_only: bool) -> Phase:
    meta = node.meta
    forward = meta.get("partitioner_tag") == "is_forward"
    backward = meta.get("autograd_backward") or str(meta.get("partitioner_tag", "")).endswith("is_backward")
    if backward_only:
        own = bool(meta.get(STACK)) and not meta.get(FORWARD_STACK)
        return Phase.RECOMPUTE if forward or own else Phase.BACKWARD
    return Phase.BACKWARD if backward or (meta.get(FORWARD_STACK) and not meta.get(STACK)) else Phase.FORWARD


def _after_seeds(nodes: Sequence[fx.Node], roles: Roles) -> set[fx.Node]:
    """What is made from a tangent, or from the gradient 1 of a loss; tangents are not in it."""
    seeds = set(roles.tangents) or {node for node in nodes if is_gradient_of_loss(node, roles)}
    after = set(seeds)
    for node in nodes:
        if not after.isdisjoint(node.all_input_nodes) and node.op != "output":
            after.add(node)
    return after.difference(roles.tangents)


def is_gradient_of_loss(node: fx.Node, roles: Roles) -> bool:
    """Whether a node makes the number 1 that a loss has as its gradient."""
    if node.target not in _ONES:
        return False
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() or not value.is_floating_point():
        return False
    if node.target in (_aten.full.default, _aten.full_like.default):
        return bool(roles.gradients) and node.args[1] in (1, 1.0)
    return bool(node.all_input_nodes)


def _needed_by_forward(nodes: Sequence[fx.Node], roles: Roles, after: set[fx.Node], metadata: Metadata) -> set[fx.Node]:
    """What the results of the forward need, and what nothing uses but a forward left."""
    needed = {node for node in roles.results if node not in after and node not in roles.gradients}
    captured = "seq_nr" if any(number is not None for number in metadata.numbers) else "val"
    for node in reversed(nodes):
        if node in after or node.op == "output":
            continue
        if node in needed or not (node.users or _is_left_by_backward(node, captured)):
            needed.add(node)
            needed.update(node.all_input_nodes)  # of which none is after a seed, or the node were
    return needed


def _is_left_by_backward(node: fx.Node, captured: str) -> bool:
    """Whether a node that nothing uses is of the backward, or a pass put it there, as far as metadata tells."""
    meta = node.meta
    origin = KEY in meta and meta[KEY][1] not in ("", Phase.FORWARD.value)
    tag = str(meta.get("partitioner_tag", "")).endswith("backward")
    return bool(origin or tag or meta.get("autograd_backward") or (captured not in meta and KEY not in meta))


def _repeated(
    nodes: Sequence[fx.Node], needed: set[fx.Node], after: set[fx.Node], metadata: Metadata
) -> dict[fx.Node, fx.Node]:
    """Nodes for the backward alone that compute what a node of the forward does, from equal inputs; with that.

    What a computation done again keeps for the backward stands there with itself, if its stack tells where that was.
    """
    numbers = numbered((node for node in nodes if node not in after), {}, lambda node: node, _KEEPS)
    forward: dict[int, fx.Node] = {}
    for node in numbers:
        if node in needed:
            forward.setdefault(numbers[node], node)
    found, kept = {}, []
    flagged = any(metadata.flags)
    for node, stack, flag in zip(nodes, metadata.stacks, metadata.flags, strict=True):
        if node.op != "call_function" or node not in numbers or node in needed:
            continue
        if node.target not in _KEEPS:
            found.update({node: forward[numbers[node]]} if numbers[node] in forward else {})
        elif stack and (flag or not flagged) and node.all_input_nodes[0].target not in _KEEPS:
            kept.append(node)
    return {**found, **{node: node for node in kept}} if found else {}


def kinds_of(position: Mapping[fx.Node, int], roles: Roles, metadata: Metadata) -> list[Kind]:
    """What each node is; sums of gradients are found later."""
    of_targets: dict[int, Kind] = {}
    found: list[Kind] = []
    for target in metadata.targets:
        kind = of_targets.get(id(target))
        if kind is None:
            collective = getattr(target, "namespace", "") in _COLLECTIVE
            kind = of_targets[id(target)] = Kind.COLLECTIVE if collective else Kind.COMPUTE
        found.append(kind)
    for node, kind in roles.kinds.items():
        found[position[node]] = kind
    if metadata.ops[-1:] == ["output"]:
        found[-1] = Kind.OUTPUT
    return found
