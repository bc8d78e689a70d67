"""One call of a function, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from nir_bridge.errors import NoMeaningError
from nir_bridge.exporting.recipes import Array, Recipe, array
from nir_bridge.exporting.trace import Region, Signal, Terms, Value
from nir_bridge.fields import Shape
from nir_bridge.setting import Setting


class Run(Protocol):
    """What rules need of the run that they are in."""

    batch_dims: int
    setting: Setting

    @property
    def region(self) -> Region:
        """The region that runs."""

    def value(self, tensor: Any) -> Value | None:
        """What a tensor carries; None for a constant."""

    def shape(self, tensor: Tensor) -> Shape:
        """The batch-less shape."""

    def here(self) -> str:
        """The region that runs, as messages name it."""

    def is_random(self, value: Any) -> bool:
        """Whether a constant was drawn at random."""

    def terms(self, signal: Signal, tensor: Tensor) -> Terms:
        """A signal's sum as the region that runs sees it."""

    def emit(
        self,
        name: tuple[str, ...],
        recipe: Recipe,
        inputs: Mapping[str, tuple[Signal, Tensor]],
        gives: Shape | None,
        where: str,
    ) -> int:
        """Notes an operation and returns its number."""

    def result(self, op: int, key: Any = None, guess: frozenset[int] = frozenset()) -> Signal:
        """The signal that an operation gives."""

    def agree(self, left: Tensor, right: Tensor) -> None:
        """Two signals are added."""

    def learn(self, tensor: Tensor, other: Any) -> None:
        """A signal meets a constant."""


Outcome = Value | list[Value | None] | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call.

    Attributes:
        tracer: the run that it is in.
        name: of the function.
        args, kwargs: as it was called.
        result: what it gave.
    """

    tracer: Run
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any

    def argument(self, at: int, name: str, default: Any = None) -> Any:
        """An argument by position or name."""
        return self.args[at] if at < len(self.args) else self.kwargs.get(name, default)

    def value(self, at: int, name: str = "input") -> Value | None:
        """What an argument carries; None for a constant."""
        return self.tracer.value(self.argument(at, name))

    @property
    def where(self) -> str:
        """How messages name the call."""
        return f"{self.name} in {self.tracer.here()}"

    def no_meaning(self, why: str) -> NoMeaningError:
        """The error for a call that NIR has nothing for."""
        return NoMeaningError(f"{self.where}: {why}")

    def constant(self, value: Any, like: Tensor) -> Array:
        """A constant operand without batch axes, of a shape that can be broadcast to the other operand's.

        Raises:
            NoMeaningError: it differs along the batch, or makes the other operand larger.
        """
        self.fixed(value)
        found = array(value)
        if not isinstance(value, Tensor):
            return found
        batch, rank = self.tracer.batch_dims, like.dim()
        extra = found.ndim - (rank - batch)
        if extra > 0:
            head = found.reshape(-1, *found.shape[extra:])
            if found.ndim > rank or not bool((head == head[:1]).all()):
                raise self.no_meaning("a constant with batch axes has no meaning; NIR has no batch")
            found = head[0]
        return found

    def fixed(self, *values: Any) -> None:
        """Checks that constants are the same in every run.

        Raises:
            NoMeaningError: one was drawn at random.
        """
        if any(self.tracer.is_random(value) for value in values):
            raise self.no_meaning(
                "it uses numbers drawn at random, which differ from run to run, and a NIR graph does not; call "
                "model.eval() before to_nir, or leave the noise out"
            )

    def keeps_shape(self, like: Tensor) -> None:
        """Checks that the result has the shape of the input.

        Raises:
            NoMeaningError: it has not.
        """
        if self.result.shape != like.shape:
            raise self.no_meaning(
                f"the result has shape {tuple(self.result.shape)}, the input {tuple(like.shape)}; NIR nodes don't "
                "broadcast. Give both the same shape"
            )

    def apply(self, recipe: Recipe, tensor: Tensor, label: str = "", *, same: bool = False) -> Signal:
        """The signal that a node of the function's own makes of a signal.

        Args:
            recipe: the node.
            tensor: what goes in.
            label: the name of the node; that of the function if empty.
            same: whether the shape stays.
        """
        signal = self.tracer.value(tensor)
        if not isinstance(signal, Signal):
            raise self.no_meaning("its input is no signal")
        op = self.tracer.emit(
            (label or self.name.strip("_"),), recipe, {"input": (signal, tensor)}, self.gives(), self.where
        )
        return self.tracer.result(op, guess=signal.guess if same else frozenset())

    def gives(self) -> Shape:
        """The batch-less shape of the result."""
        return self.tracer.shape(self.result)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a function of torch means.

    Attributes:
        apply: gives what the result carries.
        meaning: in words.
        keeps_state: whether it may be applied to states.
    """

    apply: Callable[[Call], Outcome]
    meaning: str
    keeps_state: bool = False
