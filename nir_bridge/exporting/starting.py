"""What the first step of a model does in place of what comes from the step before.

In NIR that is zero at the first step. A layer that gets nothing then still adds its bias, if it is asked at all: which
of the two a model does says where the delay of a cycle is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nir_bridge.errors import NoMeaningError
from nir_bridge.exporting.recipes import ConvRecipe, Elementwise, LinearRecipe, Recipe
from nir_bridge.exporting.trace import Source, Terms, Trace

_FIX = (
    "In NIR what comes from the step before is zero at the first step. Start from zeros, do the same in every step, or "
    "export the step that follows and give it its state"
)


def through(trace: Trace, terms: Terms) -> Terms:
    """Terms, followed through the edges of regions to operations, inputs and parts of the last state."""
    found: list[Source] = []
    pending = list(terms)
    while pending:
        term = pending.pop()
        if term.kind == "port" and term.at:
            pending += trace.regions[term.at].ports[term.key].terms
        elif term.kind == "out":
            pending += trace.regions[term.at].outs[term.key].terms
        else:
            found.append(term)
    return tuple(found)


def into(trace: Trace, number: int) -> Terms:
    """All that goes into an operation."""
    return through(trace, tuple(term for terms in trace.ops[number].inputs.values() for term in terms))


def same_constants(one: Recipe, other: Recipe) -> bool:
    """Whether the constants of two functions are the same."""
    if type(one) is not type(other):
        return False
    if not isinstance(one, Elementwise | LinearRecipe | ConvRecipe):
        return True
    names = ("scale", "shift") if isinstance(one, Elementwise) else ("weight", "bias")
    return all(_same(getattr(one, name), getattr(other, name)) for name in names)


def _same(one: Any, other: Any) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def is_shift(recipe: Recipe) -> bool:
    """Whether a function adds a constant and does nothing else."""
    return isinstance(recipe, Elementwise) and recipe.scale is None


@dataclass(slots=True)
class Start:
    """The first step beside a later one.

    Attributes:
        first, later: the runs that hold them; the same where a model loops.
        pairs: the operations of the first step with those of the later one that are the same calls.
        zeros: what operations give at inputs of zero.
    """

    first: Trace
    later: Trace
    pairs: dict[int, int]
    zeros: dict[int, Any] = field(default_factory=dict)

    def silent(self, number: int, old: Iterable[int]) -> bool | None:
        """Whether operations on old values are left out at the first step; None where that makes no difference.

        Args:
            number: an operation of the first step.
            old: the operations that go into the later one and that the first step can't have.

        Raises:
            NoMeaningError: the first step adds something else.
        """
        extra, wanted = self.added(number), sum((self.at_zero(each) for each in old), np.zeros(()))
        if _near(extra, wanted):
            return False if np.any(wanted) else None
        if not np.any(extra):
            return True
        raise NoMeaningError(
            f"{self.first.ops[number].where}: at the first step a constant is added to its input in place of what "
            f"comes from the step before. {_FIX}"
        )

    def compare(self, number: int, present: list[int], wanted: list[int]) -> None:
        """Compares where an operation's input comes from, besides the step before.

        Raises:
            NoMeaningError: it comes from elsewhere.
        """
        if sorted(present) != sorted(wanted):
            raise NoMeaningError(
                f"{self.first.ops[number].where}: at the first step its input comes from elsewhere than in later ones. "
                f"{_FIX}"
            )

    def sources(self, number: int) -> Terms:
        """Where the input of an operation of the first step comes from, past constants that it alone adds."""
        found: list[Source] = []
        pending = list(into(self.first, number))
        while pending:
            term = pending.pop()
            if term.kind == "op" and term.at not in self.pairs and is_shift(self.first.ops[term.at].recipe):
                pending += into(self.first, term.at)
            else:
                found.append(term)
        return tuple(found)

    def added(self, number: int) -> Any:
        """The constants that the first step alone adds to the input of an operation."""
        total: Any = np.zeros(())
        pending = list(into(self.first, number))
        while pending:
            term = pending.pop()
            if term.kind != "op" or term.at in self.pairs:
                continue
            recipe = self.first.ops[term.at].recipe
            if isinstance(recipe, Elementwise) and recipe.scale is None:
                total = total + recipe.shift
                pending += into(self.first, term.at)
        return total

    def at_zero(self, number: int) -> Any:
        """What a layer gives where all that goes into it is zero; neurons and other nodes give zero."""
        if number not in self.zeros:
            self.zeros[number] = np.zeros(())
            recipe = self.later.ops[number].recipe
            sources = [term.at for term in into(self.later, number) if term.kind == "op"]
            given = sum((self.at_zero(at) for at in sources), np.zeros(())) if _has_constants(recipe) else np.zeros(())
            self.zeros[number] = _applied(recipe, given)
        return self.zeros[number]

    def chain(self, number: int) -> set[int]:
        """A layer and those before it, up to neurons."""
        found: set[int] = set()
        pending = [number]
        while pending:
            at = pending.pop()
            if at not in found and _has_constants(self.later.ops[at].recipe):
                found.add(at)
                pending += [term.at for term in into(self.later, at) if term.kind == "op"]
        return found


def _has_constants(recipe: Recipe) -> bool:
    return isinstance(recipe, Elementwise | LinearRecipe | ConvRecipe)


def _applied(recipe: Recipe, given: Any) -> Any:
    if isinstance(recipe, Elementwise):
        scaled = given if recipe.scale is None else recipe.scale * given
        return scaled if recipe.shift is None else scaled + recipe.shift
    if isinstance(recipe, LinearRecipe):
        full = np.broadcast_to(given, np.broadcast_shapes(np.shape(given), (recipe.weight.shape[-1],)))
        found = full @ np.swapaxes(recipe.weight, -1, -2) if recipe.weight.ndim == 2 else np.zeros(())
        return found if recipe.bias is None else found + recipe.bias
    if isinstance(recipe, ConvRecipe) and recipe.bias is not None:
        return recipe.bias.reshape(-1, *[1] * (recipe.weight.ndim - 2))
    return np.zeros(())


def _near(one: Any, other: Any) -> bool:
    try:
        return bool(np.allclose(one, other, rtol=1e-4, atol=1e-6))
    except ValueError:
        return False


def shifts_after(first: Trace, later: Trace) -> dict[int, int]:
    """The layers on the state that a first step, without one, does without, and how much later they act.

    Raises:
        NoMeaningError: the first step does something else.
    """
    start = Start(first, later, _pairs(first, later))
    back = {new: old for old, new in start.pairs.items()}
    waiting: set[int] = set()
    for number in range(len(later.ops)):
        terms = into(later, number)
        if terms and number not in back and all(_is_old(term, waiting) for term in terms):
            waiting.add(number)
    found: dict[int, int] = {}
    for number, other in start.pairs.items():
        terms = into(later, other)
        old = [term.at for term in terms if term.kind == "op" and term.at in waiting]
        wanted = [_origin(term, {}) for term in terms if not _is_old(term, waiting)]
        start.compare(number, [_origin(term, start.pairs) for term in start.sources(number)], wanted)
        if start.silent(number, old):
            found.update(dict.fromkeys((at for each in old for at in start.chain(each)), -1))
    return found


def _is_old(term: Source, waiting: set[int]) -> bool:
    return term.kind == "previous" or (term.kind == "op" and term.at in waiting)


def _origin(term: Source, pairs: dict[int, int]) -> int:
    """An operation of the later run, by number; inputs have numbers below zero."""
    if term.kind != "op":
        return -1
    return pairs.get(term.at, -2) if pairs else term.at


def _pairs(first: Trace, later: Trace) -> dict[int, int]:
    """The operations of the first run with the same ones of the later."""
    found: dict[int, int] = {}
    at = 0
    for number, op in enumerate(first.ops):
        for other in range(at, len(later.ops)):
            also = later.ops[other]
            if op.where == also.where and op.name == also.name and same_constants(op.recipe, also.recipe):
                found[number] = other
                at = other + 1
                break
    return found
