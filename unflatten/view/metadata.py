"""What nodes say of themselves, read once: the nodes of a large graph are far apart in memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from unflatten.view.origins import KEY
from unflatten.view.stacks import FORWARD_STACK, STACK


@dataclass(eq=False, slots=True)
class Metadata:
    """What each node of a graph and its metadata say, None where that is nothing.

    Attributes:
        ops: the kinds of fx nodes.
        targets: what they call.
        arguments: the positional arguments and the others.
        stacks: the module stacks.
        forward_stacks: those of the forward nodes that nodes are gradients of.
        origins: owners that were written.
        numbers: sequence numbers of autograd.
        flags: whether autograd's engine made the node.
        sums: whether it is known to add gradients.
        tags: the phase that a partitioner would give it.
        values: what it gives: fake tensors.
    """

    ops: list[str] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)
    arguments: tuple[list[Any], list[Any]] = field(default_factory=lambda: ([], []))
    stacks: list[Any] = field(default_factory=list)
    forward_stacks: list[Any] = field(default_factory=list)
    origins: list[Any] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)
    flags: list[Any] = field(default_factory=list)
    sums: list[Any] = field(default_factory=list)
    tags: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    @staticmethod
    def of(nodes: Sequence[fx.Node]) -> Metadata:
        """Reads it."""
        # Lists of what is there already: new containers for each node would keep the garbage collector busy.
        found = Metadata()
        ops, targets, (args, kwargs) = found.ops, found.targets, found.arguments
        stacks, forward, origins = found.stacks, found.forward_stacks, found.origins
        numbers, flags, sums, tags, values = found.numbers, found.flags, found.sums, found.tags, found.values
        for node in nodes:
            ops.append(node.op)
            targets.append(node.target)
            args.append(node.args)
            kwargs.append(node.kwargs)
            get = node.meta.get
            stacks.append(get(STACK))
            forward.append(get(FORWARD_STACK))
            origins.append(get(KEY))
            numbers.append(get("seq_nr"))
            flags.append(get("autograd_backward"))
            sums.append(get("is_gradient_acc"))
            tags.append(get("partitioner_tag"))
            values.append(get("val"))
        return found

    def is_like(self, other: Metadata) -> bool:
        """Whether two say the same of equal nodes."""
        return (
            (self.ops, self.targets, self.arguments) == (other.ops, other.targets, other.arguments)
            and all(map(operator.is_, self.values, other.values))
            and self.stacks == other.stacks
            and self.forward_stacks == other.forward_stacks
            and (self.origins, self.numbers, self.flags, self.sums, self.tags)
            == (other.origins, other.numbers, other.flags, other.sums, other.tags)
        )
