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
from nir_bridge.primitives.steps import fire, test_of
from nir_bridge.state import State
from unflatten.assemble import in_transform

Values = tuple[Tensor, ...]
Coefficients = tuple[Any, ...]
CACHE = "@coefficients"
_TWO_STAGES = frozenset({"snntorch_subtract", "snntorch_delayed"})
_LEVELS = frozenset({"v_threshold", "v_reset"})
_version = attrgetter("_version")


@dataclass(frozen=True, eq=False)
class Cache:
    """Coefficients, and the constants that they are for.

    Attributes:
        sources: the constants.
        watched: those that something is computed of; a step takes the others as they are.
        versions: how often each of them had been written to.
        coefficients: what was computed of them.
    """

    sources: Values
    watched: Values
    versions: tuple[int, ...]
    coefficients: Coefficients

    @staticmethod
    def of(module: Neuron) -> Cache | None:
        """The coefficients of a neuron; None where they can't outlive this call, or gradients go through them."""
        held = [tensor for tensor in module._buffers.values() if tensor is not None]
        if len(held) != len(module.constants) or in_transform():
            return None
        for tensor in held:
            if type(tensor) is not Tensor or tensor.requires_grad or tensor.is_inference() or tensor.is_meta:
                return None
        with torch.inference_mode(False):  # tensors made in inference mode could not be used outside of it
            coefficients = module.computed(known=True)
        watched = tuple(
            tensor for name, tensor in module._buffers.items() if tensor is not None and name not in _LEVELS
        )
        return Cache(tuple(held), watched, tuple(map(_version, watched)), coefficients)

    def is_valid(self, held: Mapping[str, Tensor | None]) -> bool:
        """Whether the constants are still the same; asked at every step, so the loops are Python's own."""
        return all(map(is_, self.sources, held.values())) and tuple(map(_version, self.watched)) == self.versions


class Neuron(nn.Module):
    """A module with a state.

    Attributes:
        shape: of the neurons, batch-less.
        parts: the names of the tensors in the state.
        spiking: whether it gives spikes rather than its potential.
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
        self.reset = self.dynamics.reset
        self.test = test_of(self.dynamics)
        self.slope = target.slope
        lag = self.dynamics.output_lag if self.spiking else 0
        self.parts = self.own + tuple("z" if step == 0 else f"z{step + 1}" for step in range(lag))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One step.

        Args:
            x: the input, with any leading batch axes.
            state: what the last step returned; None for the start.

        Returns:
            The output and the new state.
        """
        coefficients = self.coefficients()
        values = self.start(_broadcast(x.shape, self.shape)) if state is None else state.take(self.parts)
        y, values = self.advance(self.drive(x, coefficients), values, coefficients)
        return y, State(**dict(zip(self.parts, values, strict=True)))

    def series(self, xs: Tensor, values: Values, keep: Sequence[str] = ()) -> tuple[Tensor, Values, dict[str, Tensor]]:
        """All steps of a series, time first.

        Args:
            xs: the inputs.
            values: the tensors of the state at the start.
            keep: the parts of the state to return for every step.
        """
        coefficients = self.coefficients()
        outputs: list[Tensor] = []
        kept: dict[str, list[Tensor]] = {name: [] for name in keep}
        for drive in self.drive(xs, coefficients).unbind(0):
            y, values = self.advance(drive, values, coefficients)
            outputs.append(y)
            for name, found in kept.items():
                found.append(values[self.parts.index(name)])
        return torch.stack(outputs), values, {name: torch.stack(found) for name, found in kept.items()}

    def coefficients(self) -> Coefficients:
        """What a step needs of the constants; the same for all steps, and kept until a constant changes.

        Changes that torch does not count are not seen: those through `.data` or numpy. Assign or write to the
        buffer itself.
        """
        if torch.compiler.is_dynamo_compiling():
            return self.computed(known=False)
        cache: Cache | None = self.__dict__.get(CACHE)
        if cache is None or not cache.is_valid(self._buffers):
            cache = Cache.of(self)
            if cache is None:
                return self.computed(known=False)
            self.__dict__[CACHE] = cache
        return cache.coefficients

    def computed(self, known: bool) -> Coefficients:
        """The coefficients anew.

        Args:
            known: whether values may be looked at, so that what adds nothing can be left out.
        """
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        held: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return {name: value for name, value in held.items() if name != CACHE}

    def drive(self, x: Tensor, coefficients: Coefficients) -> Tensor:
        """What an input does, as far as it doesn't depend on the state; inputs may be a series."""
        raise NotImplementedError

    def advance(self, drive: Tensor, values: Values, coefficients: Coefficients) -> tuple[Tensor, Values]:
        """One step."""
        raise NotImplementedError

    def fire(
        self, before: Tensor, v: Tensor, threshold: Tensor, v_reset: Tensor, queue: Values
    ) -> tuple[Tensor, Values]:
        """Spikes and resets.

        Args:
            before: the potential that the step began with.
            v: the potential without resets.
            threshold: what potentials are compared with.
            v_reset: what spikes reset to, where they don't subtract.
            queue: the spikes that were held back.
        """
        if self.reset in _TWO_STAGES:  # last step's reset first, then the difference to this one's
            last = (before > threshold).type_as(v)
            v = v - last * threshold
            spikes, _ = fire(v, threshold, self.test, self.slope)
            if self.reset == "snntorch_subtract":
                v = v - (spikes - last) * threshold
        else:
            spikes, found = fire(v, threshold, self.test, self.slope)
            if self.reset == "subtract":
                v = v - spikes * threshold
            else:
                v = torch.where(found if found.dtype is torch.bool else found > 0, v_reset, v)
        return self.lagged(spikes, v, queue) if queue else (spikes, (v,))

    def lagged(self, spikes: Tensor, v: Tensor, queue: Values) -> tuple[Tensor, Values]:
        """What comes out now, and what the next step starts from: the spikes still to come are a part of it."""
        return (queue[0], (v, *queue[1:], spikes)) if queue else (spikes, (v,))

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
        return State(**dict(zip(self.parts, values, strict=True)))

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
