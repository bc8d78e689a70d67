"""What all neurons share: an explicit state, one step at a time, and whole series in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nir_bridge.errors import ShapeError
from nir_bridge.fields import Fields, Shape, Target, hold_constants
from nir_bridge.primitives.base import fits, mismatch
from nir_bridge.primitives.steps import Advance, Drive, Values, held_back
from nir_bridge.state import State
from unflatten.assemble import in_transform

Coefficients = tuple[Any, ...]
Rule = tuple[Drive, Advance]
CACHE = "@rule"
_LEVELS = frozenset({"v_threshold", "v_reset"})
_version = attrgetter("_version")


@dataclass(frozen=True, eq=False)
class Cache:
    """What a step does, and the constants that it is made of.

    Attributes:
        sources: the constants.
        watched: those that something is computed of; a step takes the others as they are.
        writes: how often they had been written to, all together.
        rule: what was made of them.
    """

    sources: Values
    watched: Values
    writes: int
    rule: Rule

    @staticmethod
    def of(module: Neuron) -> Cache | None:
        """What a step of a neuron does; None where that can't outlive this call, or gradients go through constants."""
        held = [tensor for tensor in module._buffers.values() if tensor is not None]
        if len(held) != len(module.constants) or in_transform():
            return None
        for tensor in held:
            if type(tensor) is not Tensor or tensor.requires_grad or tensor.is_inference() or tensor.is_meta:
                return None
        with torch.inference_mode(False):  # tensors made in inference mode could not be used outside of it
            rule = module.made_rule(known=True)
        watched = tuple(
            tensor for name, tensor in module._buffers.items() if tensor is not None and name not in _LEVELS
        )
        return Cache(tuple(held), watched, sum(map(_version, watched)), rule)

    def is_valid(self, held: Mapping[str, Tensor | None]) -> bool:
        """Whether the constants are still the same; asked at every step, so the loops are Python's own."""
        return all(map(is_, self.sources, held.values())) and sum(map(_version, self.watched)) == self.writes


class Neuron(nn.Module):
    """A module with a state.

    Attributes:
        shape: of the neurons, batch-less.
        parts: the names of the tensors in the state.
        spiking: whether it gives spikes rather than its potential.
        lag: how many steps later than computed its spikes come out.
    """

    own: tuple[str, ...] = ("v",)
    constants: tuple[str, ...] = ()
    time_constants: tuple[str, ...] = ()
    spiking = False

    def __init__(self, arrays: Mapping[str, NDArray[Any]], shape: Shape, target: Target) -> None:
        super().__init__()
        hold_constants(self, arrays, target)
        self.shape = shape
        self.dynamics = target.dynamics
        self.slope = target.slope
        self.lag = self.dynamics.output_lag if self.spiking else 0
        self.parts = self.own + tuple("z" if step == 0 else f"z{step + 1}" for step in range(self.lag))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One step.

        Args:
            x: the input, with any leading batch axes.
            state: what the last step returned; None for the start.

        Returns:
            The output and the new state.
        """
        drive, advance = self.rule()
        values = self.start(_broadcast(x.shape, self.shape)) if state is None else state.take(self.parts)
        y, values = advance(drive(x), values)
        return y, State.of(self.parts, values)

    def series(self, xs: Tensor, values: Values, keep: Sequence[str] = ()) -> tuple[Tensor, Values, dict[str, Tensor]]:
        """All steps of a series, time first.

        Args:
            xs: the inputs.
            values: the tensors of the state at the start.
            keep: the parts of the state to return for every step.
        """
        drive, advance = self.rule()
        outputs: list[Tensor] = []
        kept: dict[str, list[Tensor]] = {name: [] for name in keep}
        for driven in drive(xs).unbind(0):
            y, values = advance(driven, values)
            outputs.append(y)
            for name, found in kept.items():
                found.append(values[self.parts.index(name)])
        return torch.stack(outputs), values, {name: torch.stack(found) for name, found in kept.items()}

    def rule(self) -> Rule:
        """What a step does with the constants as they are; the same for all steps, kept until a constant changes.

        Changes that torch does not count are not seen: those through `.data` or numpy. Assign or write to the
        buffer itself.
        """
        if torch.compiler.is_dynamo_compiling():
            return self.made_rule(known=False)
        cache: Cache | None = self.__dict__.get(CACHE)
        if cache is None or not cache.is_valid(self._buffers):
            cache = Cache.of(self)
            if cache is None:
                return self.made_rule(known=False)
            self.__dict__[CACHE] = cache
        return cache.rule

    def made_rule(self, known: bool) -> Rule:
        """What a step does, anew.

        Args:
            known: whether values may be looked at, so that what adds nothing can be left out.
        """
        coefficients = self.coefficients(known)
        return self.driving(coefficients), self.advancing(coefficients)

    def coefficients(self, known: bool) -> Coefficients:
        """What a step needs that is computed of the constants.

        Args:
            known: whether values may be looked at, so that what adds nothing can be left out.
        """
        raise NotImplementedError

    def driving(self, coefficients: Coefficients) -> Drive:
        """What an input does. The function must not hold the module, which keeps it."""
        raise NotImplementedError

    def advancing(self, coefficients: Coefficients) -> Advance:
        """What a step does. The function must not hold the module, which keeps it."""
        raise NotImplementedError

    def lagging(self, advance: Advance) -> Advance:
        """The same steps, with spikes that come out as late as the rules say."""
        return held_back(advance, len(self.own)) if self.lag else advance

    def __getstate__(self) -> dict[str, Any]:
        held: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return {name: value for name, value in held.items() if name != CACHE}

    def initial_state(self, batch_shape: Sequence[int] = (), _like: Tensor | None = None) -> State:
        """The state to start from."""
        return self.state(self.start((*batch_shape, *self.shape)))

    def start(self, shape: Sequence[int]) -> Values:
        """The tensors of the state to start from."""
        first: Tensor = getattr(self, self.constants[0])
        zero = first.new_zeros(tuple(shape))
        return tuple(self.resting(shape) if name == "v" else zero for name in self.parts)

    def resting(self, shape: Sequence[int]) -> Tensor:
        """The potential to start from."""
        first: Tensor = getattr(self, self.constants[0])
        rest = self.rest() if self.dynamics.initial_v == "v_leak" else None
        return first.new_zeros(tuple(shape)) if rest is None else rest.expand(tuple(shape)).clone()

    def rest(self) -> Tensor | None:
        """The potential at rest; None for zero."""
        leak: Tensor = getattr(self, "v_leak")  # noqa: B009  # only some neurons have one
        return leak

    def state(self, values: Values) -> State:
        """The tensors of a state as one."""
        return State.of(self.parts, values)

    def values(self, state: State) -> Values:
        """The tensors of a state."""
        return state.take(self.parts)

    def extra_repr(self) -> str:
        """The shape of the neurons."""
        return str(self.shape)


def _broadcast(first: Shape, second: Shape) -> Shape:
    shape: Shape = torch.broadcast_shapes(first, second)  # type: ignore[no-untyped-call]
    return shape


def shape_of(kind: type[Neuron], fields: Fields) -> Shape | None:
    """The shape of a neuron's constants together; None where all are single numbers.

    Raises:
        ShapeError: they don't fit together.
    """
    shape: Shape = ()
    for name in kind.constants:
        own: Shape = fields.shape(name)
        try:
            shape = np.broadcast_shapes(shape, own)
        except ValueError:
            raise fields.error(name, f"has shape {own}, the fields before it {shape}", ShapeError) from None
    return shape or None


def gives(kind: type[Neuron], fields: Fields, given: Shape | None) -> Shape | None:
    """The shape that a neuron gives for an input."""
    own = shape_of(kind, fields)
    if own is None or given is None:
        return own or given
    if not fits(own, given):
        raise mismatch(fields, kind.constants[0], own, given)
    return given


def make(kind: type[Neuron], fields: Fields, given: Shape | None, target: Target) -> Neuron:
    """A neuron's module.

    Raises:
        NodeError: a constant is NaN, a time constant not positive.
    """
    arrays = {
        name: fields.positive(name) if name in kind.time_constants else fields.finite(name) for name in kind.constants
    }
    if kind.spiking and target.dynamics.multi_spike and (arrays["v_threshold"] <= 0).any():
        raise fields.error("v_threshold", "has to be positive where a step can give several spikes")
    return kind(arrays, gives(kind, fields, given) or (), target)
