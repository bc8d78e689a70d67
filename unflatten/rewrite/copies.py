"""Whether what stands for a module has to hand on a copy of its input.

A module's results are tensors of their own, mostly, so that the program may write them, or the inputs, without changing
the other. Where it does, the input itself would not do: what comes out would depend on who looks first. Legality: the
input itself is handed on if the results shared memory with it anyway, or if nothing outside of the calls writes the
memory of their inputs or results, but for what the inputs are computed from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from unflatten import _torch
from unflatten.calls.known import KnownCall
from unflatten.code.body import Apply
from unflatten.flat.operators import aliased, facts_of, values_in, written_arguments
from unflatten.flat.values import FlatNode
from unflatten.groups import Groups
from unflatten.modules import DEFINITION, PLACE
from unflatten.reaching import reached
from unflatten.regions import Region


def needs_copies(calls: Iterable[KnownCall], tops: Iterable[nn.Module], everything: Iterable[nn.Module]) -> bool:
    """Whether a stand-in for a module has to copy what it hands on.

    Args:
        calls: how the program calls the module.
        tops: the trees that it is in.
        everything: all modules of those.
    """
    wanted = {call.call for call in calls}
    wholes = [whole for top in tops if (found := top.__dict__.get(PLACE)) for whole in found.regions]
    regions = [region for whole in wholes for region in whole.walk() if region.call in wanted]
    if not regions:  # a copy from another process: its code is all that there is
        return any(_writes(other) for other in everything)
    return any(_is_written(whole.nodes, regions) for whole in wholes)


def _writes(module: nn.Module) -> bool:
    definition = getattr(type(module), DEFINITION, None)
    steps = (step for body in (definition.bodies if definition else ()) for step in body.steps)
    return any(isinstance(step, Apply) and bool(facts_of(step.target).writes) for step in steps)


def _is_written(nodes: Sequence[FlatNode], regions: Sequence[Region]) -> bool:
    """Whether operators write what calls take or give, other than those that compute what they take."""
    writers = [(node, written) for node in nodes if (written := list(values_in(written_arguments(node))))]
    if not writers:
        return False
    memory = _memory(nodes)
    known = _memory(node for node in nodes if not isinstance(node.target, _torch.HigherOrderOperator))
    for region in regions:
        if {known.find(value) for value in region.outputs} <= {known.find(value) for value in region.inputs}:
            continue
        taken = {memory.find(value) for value in region.inputs}
        given = {memory.find(value) for value in region.outputs}
        harmless = reached(region.nodes, _operands)
        outside = (written for node, written in writers if node not in harmless)
        if any(memory.find(value) in taken | given for written in outside for value in written):
            return True
    return False


def _operands(node: FlatNode) -> list[FlatNode]:
    return [value for value in node.operands if isinstance(value, FlatNode)]


def _memory(nodes: Iterable[FlatNode]) -> Groups:
    """Groups of values that may share memory."""
    memory = Groups()
    for node in nodes:
        for operand in aliased(node):
            memory.join(node, operand)
    return memory
