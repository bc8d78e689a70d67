"""What is known of one node: the call that it belongs to, its phase, its kind, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from unflatten.paths import ModulePath, Scope


class Phase(Enum):
    """Which part of a training step a node belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTE = "recompute"


class Kind(Enum):
    """What a node is."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    INPUT = "input"
    SAVED = "saved by the forward graph"
    TANGENT = "tangent"
    COMPUTE = "compute"
    ACCUMULATION = "sum of gradients"
    COLLECTIVE = "collective"
    OUTPUT = "output"


class Evidence(Enum):
    """Why a node has the owner that it has, the surest first."""

    STACK = "the capture recorded it"
    ORIGIN = "it was made in the name of its owner, or recorded by `record`"
    SEQ_NR = "it has the sequence number of a forward node of its owner"
    DATAFLOW = "what it takes and what takes it leave no other owner"
    GUESS = "its neighbours share this owner; it may belong to a call inside"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a node.

    Attributes:
        scope: the calls around the node, outermost first; empty at the root.
        path: the module: that of the innermost call, or that holds a parameter.
        phase: forward, backward or recompute.
        kind: what the node is.
        evidence: why.
    """

    scope: Scope
    path: ModulePath
    phase: Phase
    kind: Kind
    evidence: Evidence

    def __str__(self) -> str:
        call = str(self.scope[-1]) if self.scope else str(self.path)
        return f"{call or 'the root'}, {self.phase.value}, {self.kind.value} ({self.evidence.name.lower()})"
