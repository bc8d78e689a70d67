"""The owners of backward nodes: by their forward stack, sequence number, gradients, and saved tensors."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Sequence

import torch
from torch import fx

from unflatten.view.gradients import Gradients
from unflatten.view.owners import Draft, enclosing
from unflatten.view.values import Evidence, Kind, Phase


def own_backward(draft: Draft) -> None:
    """Gives every backward node an owner, in one pass over the graph and one back."""
    gradients = Gradients(draft)
    for node, result in draft.roles.tangents.items():
        if result is not None:
            gradients.complete[node] = result
    unsure = _find_twins(draft, gradients)
    told = all(node in draft.scopes or node.meta.get("is_gradient_acc") for node in unsure)
    late: list[fx.Node] = []
    for node, twins in list(gradients.twins.items()):
        if not told:  # where metadata tells all of it, there is no need to look at the gradients
            gradients.look(node)
        if node in draft.scopes:
            continue
        if node.meta.get("is_gradient_acc") or (not twins and gradients.is_sum(node)):
            _own_sum(draft, gradients, node)
        elif twins and node not in unsure:
            _own_by_number(draft, gradients, node)
        elif node in gradients.sources or not _own_by_dataflow(draft, gradients, node, twins):
            late.append(node)
    _own_by_users(draft, gradients, late)


def _find_twins(draft: Draft, gradients: Gradients) -> set[fx.Node]:
    """Notes the forward nodes with the numbers of backward nodes; gives those for which that is not sure."""
    numbers = _Numbers(draft)
    unsure = set()
    for node in draft.nodes:
        if draft.phases[node] is Phase.BACKWARD and node.op not in ("placeholder", "output"):
            gradients.twins[node], sure = numbers.twins(node)
            if not sure:
                unsure.add(node)
    return unsure


class _Numbers:
    """Forward nodes by sequence number.

    A forward node has the number of the autograd node that was made last. The operator that made number n is thus
    the one with the smallest number that is not below n.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._nodes: dict[int, list[fx.Node]] = {}
        self._flagged = False
        for node in draft.nodes:
            self._flagged = self._flagged or bool(node.meta.get("autograd_backward"))
            number = node.meta.get("seq_nr")
            known = draft.phases[node] is Phase.FORWARD and node in draft.scopes
            if known and isinstance(number, int) and _may_have_gradient(node):
                self._nodes.setdefault(number, []).append(node)
        self._sorted = sorted(self._nodes)

    def twins(self, node: fx.Node) -> tuple[Sequence[fx.Node], bool]:
        """The forward nodes that a backward node may belong to, and whether its number says so without doubt."""
        number = node.meta.get("seq_nr")
        flagged = node.meta.get("autograd_backward") or not self._flagged
        if not isinstance(number, int) or node.meta.get("is_gradient_acc") or not flagged:
            return (), False
        if number in self._nodes:
            return self._nodes[number], True
        at = bisect.bisect_left(self._sorted, number)
        if at in (0, len(self._sorted)):
            return (), False
        above, below = self._nodes[self._sorted[at]], self._nodes[self._sorted[at - 1]]
        same = {self._draft.scopes[other] for other in above} == {self._draft.scopes[other] for other in below}
        return above if same else (), same


def _may_have_gradient(node: fx.Node) -> bool:
    """Whether a node gives numbers that have gradients; one that does not has the number of the node before."""
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) and value else value
    return not isinstance(first, torch.Tensor) or first.is_floating_point() or first.is_complex()


def _own_by_number(draft: Draft, gradients: Gradients, node: fx.Node) -> None:
    """Owns a node by the forward nodes of its number: those that share saved tensors with it, where they differ."""
    twins = gradients.twins[node]
    if len({draft.scopes[twin] for twin in twins}) > 1:
        saved = gradients.saved(node)
        twins = gradients.twins[node] = _most_sharing(draft, gradients, list(twins), saved) or twins
    weak = any(draft.evidence[twin] is Evidence.GUESS for twin in twins)
    scope = enclosing(draft.scopes[twin] for twin in twins)
    draft.settle(node, scope, Evidence.GUESS if weak else Evidence.SEQ_NR)


def _own_sum(draft: Draft, gradients: Gradients, node: fx.Node) -> None:
    found = gradients.sum_of(node)
    if found is not None:
        draft.settle(node, found[0], Evidence.DATAFLOW if found[1] else Evidence.GUESS)
        draft.kinds[node] = Kind.ACCUMULATION


def _own_by_dataflow(draft: Draft, gradients: Gradients, node: fx.Node, near: Sequence[fx.Node]) -> bool:
    """Owns a node by the gradient that it takes and the saved tensors that it uses; gives whether that is sure."""
    taken = [other for other in node.all_input_nodes if gradients.is_gradient(other)]
    saved = gradients.saved(node)
    if node.target is operator.getitem and taken:
        gradients.twins[node] = gradients.twins.get(taken[0], ())
        if taken[0] in draft.scopes:
            draft.settle(node, draft.scopes[taken[0]], draft.evidence[taken[0]])
            return True
    candidates = list(dict.fromkeys(op for other in taken for op in _takers(draft, gradients, other)))
    sharing = _most_sharing(draft, gradients, candidates, saved)
    found = sharing or candidates or list(near)
    if not found:
        return False
    gradients.twins[node] = found
    scopes = {draft.scopes[other] for other in found}
    draft.settle(node, enclosing(scopes), Evidence.DATAFLOW if len(scopes) == 1 else Evidence.GUESS)
    return len(scopes) == 1


def _takers(draft: Draft, gradients: Gradients, taken: fx.Node) -> list[fx.Node]:
    """The forward operators in whose backward a gradient may be used: its own, or the one before that."""
    whole = (
        other.all_input_nodes[0] if other.target is operator.getitem else other for other in gradients.whole(taken)
    )
    found = [*whole, *gradients.twins.get(taken, ())]
    return [other for other in found if other in draft.scopes and other.op not in ("placeholder", "get_attr")]


def _most_sharing(draft: Draft, gradients: Gradients, candidates: list[fx.Node], saved: list[fx.Node]) -> list[fx.Node]:
    """The operators that have most of some saved tensors among what they take and give."""
    if not saved:
        return []
    if not candidates:
        candidates = list(
            dict.fromkeys(
                user for tensor in saved for user in (tensor, *gradients.users(tensor)) if user in draft.scopes
            )
        )
    wanted = set(saved)
    counts = {
        candidate: sum(other in wanted for other in gradients.around(candidate))
        for candidate in candidates
        if candidate.op not in ("placeholder", "get_attr")
    }
    most = max(counts.values(), default=0)
    return [candidate for candidate, count in counts.items() if count == most] if most else []


def _own_by_users(draft: Draft, gradients: Gradients, late: Sequence[fx.Node]) -> None:
    """Owns what no gradient reaches, and what may belong to several operators, by what uses it in the backward."""
    for node in reversed(late):
        users = [user for user in node.users if user.op != "output"]
        scopes = [draft.scopes[user] for user in users if user in draft.scopes]
        twins = gradients.twins.get(node, ())
        wanted = dict.fromkeys(twin for user in users for twin in gradients.twins.get(user, ()))
        inner = [twin for twin in twins if twin in wanted and not gradients.may_enter(node, twin)]
        ends = [twin for twin in twins if len(users) < len(node.users) and gradients.ends(node, twin)]
        fitting = inner or ends
        if fitting:
            gradients.twins[node] = fitting
            scopes = [draft.scopes[twin] for twin in fitting]
        elif node in draft.scopes:
            continue
        elif node in gradients.sources:
            gradients.twins[node] = list(wanted)
        sure = fitting and len(set(scopes)) == 1
        draft.settle(node, enclosing(scopes) if scopes else (), Evidence.DATAFLOW if sure else Evidence.GUESS)
