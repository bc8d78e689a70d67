"""The owners of backward nodes: by their forward stack, sequence number, gradients, and saved tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from torch import fx

from unflatten.view.gradients import Gradients
from unflatten.view.owners import Draft, enclosing
from unflatten.view.twins import Numbers
from unflatten.view.values import Evidence, Kind, Phase

_IDLE = ("placeholder", "output")


def own_backward(draft: Draft) -> None:
    """Gives every backward node an owner, in one pass over the graph and one back."""
    gradients = Gradients(draft, Numbers(draft))
    for node, result in draft.roles.tangents.items():
        if result is not None:
            gradients.complete[node] = result
    metadata, scopes = draft.metadata, draft.scopes
    told = zip(draft.phases, metadata.ops, strict=True)
    backward = [at for at, (phase, op) in enumerate(told) if phase is Phase.BACKWARD and op not in _IDLE]
    if any(metadata.forward_stacks) and not gradients.numbers.are_known:
        _own_outside(draft, backward)
    blank = [at for at in backward if scopes[at] is None]
    sure = {at for at in blank if gradients.numbers.twins(at)[1]}
    # Where metadata tells all of it, there is no need to look at the gradients.
    if all(at in sure or metadata.sums[at] for at in blank):
        _own_told(draft, gradients, blank)
        return
    late: list[fx.Node] = []
    for at in backward:
        node = draft.nodes[at]
        gradients.look(node)
        if scopes[at] is not None:
            continue
        twins = gradients.twins_of(node)
        if metadata.sums[at] or (not twins and gradients.is_sum(node)):
            _own_sum(draft, gradients, node)
        elif twins and at in sure:
            _own_by_number(draft, gradients, node)
        elif node in gradients.sources or not _own_by_dataflow(draft, gradients, node, twins):
            late.append(node)
    _own_by_users(draft, gradients, late)


def _own_told(draft: Draft, gradients: Gradients, blank: Sequence[int]) -> None:
    """Owns nodes that have the number of forward nodes, or add gradients."""
    for at in blank:
        if draft.metadata.sums[at]:
            _own_sum(draft, gradients, draft.nodes[at])
        else:
            _own_by_number(draft, gradients, draft.nodes[at])


def _own_outside(draft: Draft, backward: Sequence[int]) -> None:
    """Gives the root what autograd made for no module, in a backward that stands alone and has stacks."""
    flags, sums = draft.metadata.flags, draft.metadata.sums
    for at in backward:
        if flags[at] and not sums[at] and draft.scopes[at] is None:
            draft.scopes[at], draft.evidence[at] = (), Evidence.STACK


def _own_by_number(draft: Draft, gradients: Gradients, node: fx.Node) -> None:
    """Owns a node by the forward nodes of its number: those that share saved tensors with it, where they differ."""
    twins = gradients.twins_of(node)
    if len(set(draft.scopes_of(twins))) > 1:
        saved = gradients.saved(node)
        twins = gradients.twins[node] = _most_sharing(draft, gradients, list(twins), saved) or twins
    weak = any(draft.why(twin) is Evidence.GUESS for twin in twins)
    scope = enclosing(draft.scopes_of(twins))
    draft.settle(node, scope, Evidence.GUESS if weak else Evidence.SEQ_NR)


def _own_sum(draft: Draft, gradients: Gradients, node: fx.Node) -> None:
    found = gradients.sum_of(node)
    if found is not None:
        draft.settle(node, found[0], Evidence.DATAFLOW if found[1] else Evidence.GUESS)
        draft.kinds[draft.position[node]] = Kind.ACCUMULATION


def _own_by_dataflow(draft: Draft, gradients: Gradients, node: fx.Node, near: Sequence[fx.Node]) -> bool:
    """Owns a node by the gradient that it takes and the saved tensors that it uses; gives whether that is sure."""
    taken = [other for other in node.all_input_nodes if gradients.is_gradient(other)]
    saved = gradients.saved(node)
    if node.target is operator.getitem and taken:
        gradients.twins[node] = gradients.twins_of(taken[0])
        known = draft.scope(taken[0])
        if known is not None:
            draft.settle(node, known, draft.why(taken[0]))
            return True
    candidates = list(dict.fromkeys(op for other in taken for op in _takers(draft, gradients, other)))
    sharing = _most_sharing(draft, gradients, candidates, saved)
    found = sharing or candidates or list(near)
    if not found:
        return False
    gradients.twins[node] = found
    scopes = set(draft.scopes_of(found))
    draft.settle(node, enclosing(scopes), Evidence.DATAFLOW if len(scopes) == 1 else Evidence.GUESS)
    return len(scopes) == 1


def _takers(draft: Draft, gradients: Gradients, taken: fx.Node) -> list[fx.Node]:
    """The forward operators in whose backward a gradient may be used: its own, or the one before that."""
    whole = (
        other.all_input_nodes[0] if other.target is operator.getitem else other for other in gradients.whole(taken)
    )
    found = [*whole, *gradients.twins_of(taken)]
    return [other for other in found if draft.scope(other) is not None and other.op not in ("placeholder", "get_attr")]


def _most_sharing(draft: Draft, gradients: Gradients, candidates: list[fx.Node], saved: list[fx.Node]) -> list[fx.Node]:
    """The operators that have most of some saved tensors among what they take and give."""
    if not saved:
        return []
    if not candidates:
        candidates = list(
            dict.fromkeys(
                user for tensor in saved for user in (tensor, *gradients.users(tensor)) if draft.scope(user) is not None
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
        scopes = draft.scopes_of(users)
        twins = gradients.twins_of(node)
        wanted = dict.fromkeys(twin for user in users for twin in gradients.twins_of(user))
        inner = [twin for twin in twins if twin in wanted and not gradients.may_enter(node, twin)]
        ends = [twin for twin in twins if len(users) < len(node.users) and gradients.ends(node, twin)]
        fitting = inner or ends
        if fitting:
            gradients.twins[node] = fitting
            scopes = draft.scopes_of(fitting)
        elif draft.scope(node) is not None:
            continue
        elif node in gradients.sources:
            gradients.twins[node] = list(wanted)
        sure = fitting and len(set(scopes)) == 1
        draft.settle(node, enclosing(scopes) if scopes else (), Evidence.DATAFLOW if sure else Evidence.GUESS)
