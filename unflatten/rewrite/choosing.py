"""Which of the inputs of a call a result becomes when the call is left out: the one of the same structure.

Legality: an input may stand for a result if the two have the same structure at every known call: tensors of equal
shape and dtype, sizes compared as expressions; numbers of equal expressions. Where one input does, it is taken.
Where several do, the caller has to say which. Values themselves are never compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import sympy

from unflatten.calls.specs import AnySpec, ConstantSpec, NumberSpec, Spec, TensorSpec
from unflatten.errors import AmbiguousBypassError, BypassError

Using = str | int | None
"""How a caller chooses an input: the name or the position of the parameter."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Offer:
    """One input of a call.

    Attributes:
        parameter: the parameter that it belongs to.
        position: that parameter's position.
        label: how the input is written, `mask` or `position_embeddings[0]`.
        specs: what it was at each call.
        aliases: other names by which a caller may mean it.
    """

    parameter: str
    position: int
    label: str
    specs: tuple[Spec, ...]
    aliases: tuple[str, ...] = ()

    def is_meant_by(self, using: Using) -> bool:
        """Whether a caller's choice is this input."""
        return using in (self.parameter, self.label, *self.aliases, self.position)

    def fits(self, wanted: Sequence[Spec]) -> bool:
        """Whether this has the structure of a result at every call that tells what the result was."""
        known = [(spec, want) for spec, want in zip(self.specs, wanted, strict=True) if not isinstance(want, AnySpec)]
        return bool(known) and all(same_structure(spec, want) for spec, want in known)

    def __str__(self) -> str:
        return f"{self.label}: {' or '.join(dict.fromkeys(map(str, self.specs)))}"


def same_structure(a: Spec, b: Spec) -> bool:
    """Whether two specs describe values of the same structure."""
    if isinstance(a, TensorSpec) and isinstance(b, TensorSpec):
        sizes = len(a.shape) == len(b.shape) and all(map(_same_size, a.shape, b.shape))
        return sizes and a.dtype == b.dtype
    return isinstance(a, NumberSpec) and isinstance(b, NumberSpec) and _same_size(a.expression, b.expression)


def _same_size(a: int | sympy.Expr, b: int | sympy.Expr) -> bool:
    return bool(a == b) or sympy.expand(sympy.sympify(a) - sympy.sympify(b)) == 0


@dataclass(slots=True)
class Chooser:
    """Chooses inputs for results, and remembers what could not be chosen.

    Attributes:
        where: what is to be bypassed, for messages.
        using: the caller's choice.
    """

    where: str
    using: Using
    missing: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    example: str = ""
    used: bool = False

    def choose(self, offers: Sequence[Offer], wanted: Sequence[Spec], what: str = "the result") -> Offer | None:
        """The input that a result becomes; None, and something to say in `finish`, if there is not just one.

        Args:
            offers: the inputs.
            wanted: what the result was at each call.
            what: what to call the result in messages.
        """
        fitting = [offer for offer in offers if offer.fits(wanted)]
        meant = [] if self.using is None else [offer for offer in fitting if offer.is_meant_by(self.using)]
        self.used = self.used or bool(meant)
        found = meant or fitting
        if len(found) == 1:
            return found[0]
        shown = f"{what} is {' or '.join(dict.fromkeys(map(str, wanted)))}"
        listed = "".join(f"\n    {offer}" for offer in found or offers) or "\n    none"
        if found:
            self.example = self.example or found[0].label
            self.unclear.append(f"{shown}; several inputs have that structure:{listed}")
        else:
            self.missing.append(f"{shown}; no input has that structure. The inputs are:{listed}")
        return None

    def finish(self, offers: Sequence[Offer]) -> None:
        """Raises what was found wrong, all of it at once.

        Raises:
            BypassError: a result has no input of its structure, or `using` means none that has.
            AmbiguousBypassError: a result has several.
        """
        problems = "\n".join(f"  {problem}" for problem in (*self.missing, *self.unclear))
        if self.missing:
            raise BypassError(f"can't bypass {self.where}:\n{problems}")
        if self.using is not None and not self.used:
            listed = "".join(f"\n    {offer}" for offer in offers)
            raise BypassError(
                f"can't bypass {self.where}: using={self.using!r} is no input of the structure of a result. "
                f"The inputs are:{listed}"
            )
        if self.unclear:
            raise AmbiguousBypassError(
                f"can't bypass {self.where}:\n{problems}\nChoose one by name or position, as in using={self.example!r}."
            )


def constant_of(wanted: Sequence[Spec]) -> ConstantSpec | None:
    """The constant that a result is at every call, None if it is none."""
    first = wanted[0] if wanted else None
    if isinstance(first, ConstantSpec) and all(spec == first for spec in wanted):
        return first
    return None
