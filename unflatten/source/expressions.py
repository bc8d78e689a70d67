"""What a constructor makes, as values: modules, tensors and constants that are not made yet."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from unflatten.code.body import frozen
from unflatten.paths import ModulePath


@dataclass(frozen=True, eq=False, slots=True)
class Literal:
    """A constant."""

    value: Any

    def key(self) -> Hashable:
        """Equal for constants that mean the same."""
        return frozen(self.value)


@dataclass(frozen=True, eq=False, slots=True)
class New:
    """A call of a class of torch, or of a function that makes a tensor.

    Attributes:
        callee: what is called, such as `nn.Linear`.
        positional: the arguments without names.
        named: those with names.
        defaults: what those are that need not be said.
    """

    callee: str
    positional: tuple[tuple[str, Expression], ...]
    named: tuple[tuple[str, Expression], ...] = ()
    defaults: tuple[Hashable, ...] = ()

    def shape(self) -> Hashable:
        """What has to be equal for two to differ in arguments only."""
        return self.callee, tuple(name for name, _ in self.positional), tuple(name for name, _ in self.named)

    def said(self) -> list[tuple[str, Expression]]:
        """The arguments with names that have to be said."""
        return [
            (name, value)
            for (name, value), default in zip(self.named, self.defaults, strict=True)
            if not isinstance(value, Literal) or value.key() != default
        ]


@dataclass(frozen=True, eq=False, slots=True)
class Items:
    """A container with what it holds."""

    callee: str
    items: tuple[tuple[str, Expression], ...]

    def shape(self) -> Hashable:
        """What has to be equal for two to differ in what they hold only."""
        return self.callee, tuple(name for name, _ in self.items)


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    """A module of a written class, by its path."""

    path: ModulePath


@dataclass(frozen=True, eq=False, slots=True)
class Ref:
    """A module that is made elsewhere, by its path from the root; or, where `inside`, from the class that says so."""

    path: ModulePath
    inside: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """A module of a written class with the arguments of its constructor.

    Attributes:
        group: the number of the class.
        arguments: by name.
    """

    group: int
    arguments: Mapping[str, Expression]


@dataclass(frozen=True, eq=False, slots=True)
class Argument:
    """An argument of the constructor that the expression stands in."""

    name: str


Expression = Literal | New | Items | Instance | Ref | Made | Argument
