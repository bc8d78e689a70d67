"""What a generated module knows of the graph that it is: frozen values, beside its code."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nir_bridge.fields import Shape
from nir_bridge.flattening import Path
from nir_bridge.sketch import Sketch


@dataclass(frozen=True, slots=True)
class Port:
    """An input of a module.

    Attributes:
        name: of the Input node, or of the node that the value goes to.
        parameter: what the generated code calls it.
        shape: batch-less; None where it is not known.
        optional: whether it may be left out, for zeros.
    """

    name: str
    parameter: str
    shape: Shape | None
    optional: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a module's state that a child has: its path, the same in the state and among the modules."""

    path: Path


@dataclass(frozen=True, slots=True)
class Feedback:
    """A part of a module's state that keeps a value for the next step.

    Attributes:
        path: where it is in the state.
        shape: batch-less.
    """

    path: Path
    shape: Shape


@dataclass(frozen=True, slots=True)
class Term:
    """What goes into a node: the value of another one.

    Attributes:
        source: the other one.
        delayed: whether it is that of the step before.
        level: how many names are in the path of the innermost group that the edge is in.
    """

    source: int
    delayed: bool
    level: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A node of the flat graph, as whole series are run.

    Attributes:
        path: of its module, from the root.
        label: its name.
        terms: what goes into it.
        stateful: whether it has a state.
        own: whether this package made its module.
        has_module: whether it has one; edges just add up in Input and Output nodes.
        is_input: whether it is an Input node.
        silent: the shape of zeros that it gives; None for all other nodes.
        lagged: whether its spikes come out a step later, so that a cycle takes them from its state.
    """

    path: Path
    label: str
    terms: tuple[Term, ...]
    stateful: bool = False
    own: bool = True
    has_module: bool = True
    is_input: bool = False
    silent: Shape | None = None
    lagged: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """The flat graph of a root.

    Attributes:
        units: its nodes.
        stages: the nodes in the order in which series can be run: one node, or the nodes of a cycle together, in
            the order of a step.
        inputs, outputs: the numbers of the Input and Output nodes, by name.
        previous: where in the state the last value of a node is kept.
        groups: the paths of the modules that hold others and are called.
        calls: the nodes that have a module, in the order in which a step calls them.
        silent_axes: how many axes the input has that zeros are made like.
    """

    units: tuple[Unit, ...]
    stages: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    previous: tuple[tuple[int, Path], ...]
    groups: tuple[Path, ...]
    calls: tuple[int, ...]
    silent_axes: int


@dataclass(frozen=True, eq=False)
class Plan:
    """What a module of a graph knows of itself.

    Attributes:
        ports: its inputs.
        outputs: the names of its outputs; one is returned as it is, several as a dict.
        parts, feedback: its state.
        stateful: whether it takes and returns a state.
        delayed: the edges inside that carry the value of the step before.
        device, dtype: what it was made for.
        one_batch_axis: whether a module inside takes no more than one batch axis.
        network: the flat graph, of the root alone.
        originals: the names of nodes, by the paths of their modules.
        sketch: the graph as it was, of the root alone.
    """

    ports: tuple[Port, ...]
    outputs: tuple[str, ...]
    parts: tuple[Part, ...]
    feedback: tuple[Feedback, ...]
    stateful: bool
    delayed: tuple[tuple[str, str], ...]
    device: torch.device
    dtype: torch.dtype
    one_batch_axis: bool = False
    network: Network | None = None
    originals: tuple[tuple[Path, str], ...] = ()
    sketch: Sketch | None = None

    def __deepcopy__(self, memo: object) -> Plan:
        return self
