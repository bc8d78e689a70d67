"""What a run of a model comes to: regions (calls of modules), operations in them, and the sums that flow between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nir_bridge.exporting.recipes import Recipe
from nir_bridge.exporting.trees import Place
from nir_bridge.fields import Shape


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from.

    Attributes:
        kind: `"op"`, the result of an operation; `"port"`, what comes into a region, seen from inside; `"out"`, what
            goes out of a region, seen from around it; `"previous"`, a part of the state that the model was given.
        at: the number of the operation or region.
        key: which of its results, ports or outputs.
        lag: how many steps old it is.
    """

    kind: str
    at: int
    key: Any = None
    lag: int = 0


Terms = tuple[Source, ...]
"""A sum of values: in NIR all edges into a node add up, so an addition is no node."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a tensor carries.

    Attributes:
        terms: the sum that it is.
        region: the region in which the terms are meant.
        guess: inputs of unknown shape that have the shape of this tensor.
    """

    terms: Terms
    region: int
    guess: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class StatePart:
    """A tensor that is a part of the state that an operation gave."""

    op: int


Value = Signal | StatePart


@dataclass(frozen=True, slots=True)
class Op:
    """One node to be.

    Attributes:
        region: the region that it is in.
        name: its name there, as a path.
        recipe: what it is.
        inputs: what goes into it, by the name of the argument.
        takes, gives: batch-less shapes; None where they are not known.
        where: how messages name it.
        module: whose call it is.
        states: the operations whose states went into it.
        gives_state: whether its module returned a state.
    """

    region: int
    name: Place
    recipe: Recipe
    inputs: Mapping[str, Terms]
    takes: Shape | None
    gives: Shape | None
    where: str
    module: nn.Module | None = None
    states: tuple[int, ...] = ()
    gives_state: bool = False


@dataclass(slots=True)
class Port:
    """What comes into a region, or goes out: its name, the sum, and its shape."""

    name: str
    terms: Terms
    shape: Shape | None


@dataclass(slots=True)
class Region:
    """One call of a module that is no node itself.

    Attributes:
        number: its number.
        parent: the region around it; None for the root.
        name: its name there, as a path.
        path: of the module, as messages show it.
        module: the module.
        arguments: the names of the tensors that it was given, by identity.
        results: the names of the tensors that it returned, by identity.
        ports: what comes in, by the sum around it.
        outs: what goes out, by the sum inside.
    """

    number: int
    parent: int | None
    name: Place
    path: str
    module: nn.Module
    arguments: dict[int, str] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    ports: dict[Any, Port] = field(default_factory=dict)
    outs: dict[Any, Port] = field(default_factory=dict)


@dataclass(slots=True)
class Trace:
    """All that was noted.

    Attributes:
        regions, ops: by number.
        feedback: the sums that become parts of the next state, by place.
        events: operations and regions in the order in which they ran.
        keys: numbers of sums.
        shifts: layers on values of the step before, and how many steps later their constants have to act.
    """

    regions: list[Region] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    feedback: dict[Place, Signal] = field(default_factory=dict)
    events: list[tuple[str, int]] = field(default_factory=list)
    keys: dict[Terms, int] = field(default_factory=dict)
    shifts: dict[int, int] = field(default_factory=dict)

    def key(self, terms: Terms) -> int:
        """The number of a sum, the same for equal ones. Keys of ports are numbers, so that no sum holds sums."""
        return self.keys.setdefault(terms, len(self.keys))
