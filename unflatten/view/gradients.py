"""Which forward tensors a backward node may be the gradient of.

A backward node belongs to a forward operator, its twin; what it computes is the gradient of one of the operator's
inputs, which its shape tells apart. Where an operator only hands a gradient on (a sum does), the same node is the
gradient of that operator's inputs too. The sum of several gradients belongs to all users of the tensor that they are
gradients of.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from unflatten.paths import Scope
from unflatten.view.origins import KEY, MADE
from unflatten.view.owners import Draft, enclosing
from unflatten.view.phases import is_gradient_of_loss
from unflatten.view.stacks import FORWARD_STACK, STACK
from unflatten.view.twins import Numbers
from unflatten.view.values import Phase

_aten = torch.ops.aten
_HANDS_ON = {_aten.add.Tensor, _aten.add_.Tensor, _aten.alias.default}
_HANDS_ON_FIRST = {_aten.sub.Tensor}
_SUMS = {_aten.add.Tensor, _aten.add_.Tensor}
_NO_GRADIENT = {_aten.detach.default}
_PARTS = {*_NO_GRADIENT, operator.getitem}
_FAR = 32
"""How many sums a gradient is followed through: a bound on the time for each node."""


@dataclass(slots=True)
class Gradients:
    """What is known of the backward nodes that were looked at so far.

    Attributes:
        draft: the owners.
        numbers: forward nodes by sequence number.
        twins: the forward operators that a backward node may belong to, where more is known than its number.
        complete: nodes that are all of the gradient of a tensor, with that.
        sources: backward nodes that no gradient reaches, with the forward tensors that they are made from.
    """

    draft: Draft
    numbers: Numbers
    twins: dict[fx.Node, Sequence[fx.Node]] = field(default_factory=dict)
    complete: dict[fx.Node, fx.Node] = field(default_factory=dict)
    sources: dict[fx.Node, list[fx.Node]] = field(default_factory=dict)
    _users: dict[fx.Node, list[fx.Node]] = field(default_factory=dict)
    _shapes: dict[fx.Node, Any] = field(default_factory=dict)

    def twins_of(self, node: fx.Node) -> Sequence[fx.Node]:
        """The forward operators that a backward node may belong to, as far as that is known."""
        node = self._through(node)
        if node not in self.twins:
            idle = node.op in ("placeholder", "output") or self.draft.phase(node) is not Phase.BACKWARD
            self.twins[node] = () if idle else self.numbers.twins(self.draft.position[node])[0]
        return self.twins[node]

    def look(self, node: fx.Node) -> None:
        """Notes whether a node has to do with gradients at all, or is the gradient of a loss."""
        inputs = node.all_input_nodes
        if is_gradient_of_loss(node, self.draft.roles):
            loss = inputs[0] if inputs else self.draft.roles.loss
            self.complete.update({node: loss} if loss is not None else {})
        elif not any(self.is_gradient(other) for other in inputs):
            self.sources[node] = self.saved(node)

    def is_gradient(self, node: fx.Node) -> bool:
        """Whether a backward node was made from a gradient."""
        return self.draft.phase(node) is Phase.BACKWARD and node not in self.sources

    def saved(self, node: fx.Node) -> list[fx.Node]:
        """The forward tensors that a backward node uses, transposed ones and the like too."""
        found: dict[fx.Node, None] = {}
        for other in node.all_input_nodes:
            if self.draft.phase(other) is not Phase.BACKWARD:
                found[other] = None
            else:
                found.update(dict.fromkeys(self.sources.get(other, ())))
        return list(found)[:_FAR]

    def around(self, node: fx.Node) -> set[fx.Node]:
        """What an operator may save: what it takes and gives, and what it took before a pass put a node in between."""
        parts = (user for user in node.users if user.target in _PARTS)
        before = (other for taken in node.all_input_nodes if self._is_added(taken) for other in taken.all_input_nodes)
        return {node, *node.all_input_nodes, *parts, *before}

    def may_enter(self, node: fx.Node, twin: fx.Node) -> bool:
        """Whether a node may be the gradient of what an operator gives, made before its own backward begins."""
        shape = self._shape(twin)
        return shape is None or shape == self._shape(node)

    def ends(self, node: fx.Node, twin: fx.Node) -> bool:
        """Whether a node may be the gradient of an input of the graph, for an operator that takes that."""
        inputs = (other for other in twin.all_input_nodes if other.op == "placeholder")
        return any(self._same_shape(other, node) for other in inputs)

    def users(self, node: fx.Node) -> list[fx.Node]:
        """The forward operators that a tensor is differentiated through."""
        if node not in self._users:
            self._users[node] = found = []
            pending, seen = list(node.users), set(node.users)
            for user in pending:
                if user.op == "output" or self.draft.phase(user) is not Phase.FORWARD or user.target in _NO_GRADIENT:
                    continue
                if self._is_added(user):
                    pending += [other for other in user.users if other not in seen]
                    seen.update(user.users)
                else:
                    found.append(user)
        return self._users[node]

    def of(self, node: fx.Node) -> list[fx.Node]:
        """The tensors that a node may be the gradient of, or a part of the gradient."""
        node = self._through(node)
        if node in self.complete:
            found = [self.complete[node]]
        else:
            found = [
                tensor
                for twin in self.twins_of(node)
                for tensor in twin.all_input_nodes
                if self._same_shape(tensor, node)
            ]
        known = dict.fromkeys(found)
        for tensor in found:
            if len(known) > _FAR:
                break
            if tensor is self.complete.get(node) or len(self.users(tensor)) == 1:
                further = [other for other in self._handed_on(tensor) if other not in known]
                known.update(dict.fromkeys(further))
                found.extend(further)
        return list(known)

    def whole(self, node: fx.Node) -> list[fx.Node]:
        """The tensors whose whole gradient a node may be: the operators that made them take it."""
        return [tensor for tensor in self.of(node) if tensor is self.complete.get(node) or len(self.users(tensor)) == 1]

    def sum_of(self, node: fx.Node) -> tuple[Scope, bool] | None:
        """The owner of a node that adds two gradients, and whether it is sure; None if it adds something else."""
        first, second = self.summands(node)
        left, right = self.of(first), self.of(second)
        both = [tensor for tensor in left if tensor in right and len(self.users(tensor)) > 1]
        if both:
            if len(both) == 1:
                self.complete[node] = both[0]
            return self._around(both, ()), True
        either = [tensor for tensor in (*left, *right) if len(self.users(tensor)) > 1]
        return self._around(either, self.draft.scopes_of((first, second))), False

    def _around(self, tensors: Iterable[fx.Node], scopes: Iterable[Scope]) -> Scope:
        tensors = list(tensors)
        if self.draft.holders and any(tensor in self.draft.roles.names for tensor in tensors):
            return ()  # a parameter with several uses: its module is called several times, from who knows where
        users = [user for tensor in tensors for user in self.users(tensor)]
        found = [*self.draft.scopes_of(users), *scopes]
        return self.draft.outside(enclosing(found)) if found else ()

    def summands(self, node: fx.Node) -> tuple[fx.Node, fx.Node]:
        """The two gradients that a node adds."""
        parts = [part for part in node.args if isinstance(part, fx.Node)]
        return parts[0], parts[-1]

    def is_sum(self, node: fx.Node) -> bool:
        """Whether a node adds two backward values, and nothing says for which operator."""
        parts = [part for part in node.args if isinstance(part, fx.Node)]
        if node.target not in _SUMS or len(parts) != 2:
            return False
        backward = all(self.draft.phase(part) is Phase.BACKWARD for part in parts)
        return backward and self._same_shape(parts[0], parts[1])

    def _handed_on(self, tensor: fx.Node) -> list[fx.Node]:
        """The inputs of the operator that made a tensor, if their gradient is the tensor's own."""
        if self._is_added(tensor):
            inputs = tensor.all_input_nodes
        elif tensor.target in _HANDS_ON_FIRST:
            inputs = tensor.all_input_nodes[:1]
        elif tensor.target in _HANDS_ON:
            inputs = tensor.all_input_nodes
        else:
            return []
        return [other for other in inputs if self._same_shape(other, tensor)]

    def _is_added(self, node: fx.Node) -> bool:
        """Whether a pass made a node, so that autograd never saw it."""
        if node.op != "call_function" or node.target is operator.getitem:
            return False
        told = ("seq_nr", "is_gradient_acc", STACK, FORWARD_STACK, KEY)
        return MADE in node.meta or (self.numbers.are_known and not any(node.meta.get(key) for key in told))

    def _through(self, node: fx.Node) -> fx.Node:
        """What a backward node is a changed form of, where a pass put it there; itself otherwise."""
        while self._is_added(node):
            before = (other for other in node.all_input_nodes if self.draft.phase(other) is Phase.BACKWARD)
            found = next((other for other in before if self._same_shape(other, node)), None)
            if found is None:
                break
            node = found
        return node

    def _same_shape(self, a: fx.Node, b: fx.Node) -> bool:
        shape = self._shape(a)
        return shape is not None and shape == self._shape(b)

    def _shape(self, node: fx.Node) -> Any:
        if node not in self._shapes:
            value = node.meta.get("val", node.meta.get("example_value"))
            shape: Any = tuple(value.shape) if isinstance(value, torch.Tensor) else None
            if shape is not None and any(not isinstance(size, int) for size in shape):
                shape = tuple(map(str, shape))
            self._shapes[node] = shape
        return self._shapes[node]
