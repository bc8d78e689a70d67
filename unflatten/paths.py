"""Where a module sits in its tree, and which of its calls is meant: frozen values, parsed once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class ModulePath:
    """The names that lead from the root module to one of its descendants.

    >>> path = ModulePath.parse("layers.0.attn")
    >>> path.names, str(path.parent), path.name
    (('layers', '0', 'attn'), 'layers.0', 'attn')
    >>> path.is_within(ModulePath.parse("layers")), path.is_within(ModulePath.parse("lay"))
    (True, False)
    """

    names: tuple[str, ...] = ()

    @staticmethod
    def parse(fqn: str) -> ModulePath:
        """The path that a fully qualified name spells; equal names give one object."""
        return _parse(fqn)

    @property
    def name(self) -> str:
        """The last name, or an empty string for the root."""
        return self.names[-1] if self.names else ""

    @property
    def parent(self) -> ModulePath:
        """The path without its last name; the root is its own parent."""
        return ModulePath(self.names[:-1])

    def is_within(self, other: ModulePath) -> bool:
        """Whether this is `other` or one of its descendants."""
        return self.names[: len(other.names)] == other.names

    def below(self, other: ModulePath) -> tuple[str, ...]:
        """The names that lead from `other`, an ancestor, to here."""
        return self.names[len(other.names) :]

    def __truediv__(self, name: str) -> ModulePath:
        return ModulePath((*self.names, name))

    def __str__(self) -> str:
        return ".".join(self.names)

    def __repr__(self) -> str:
        return f"ModulePath({str(self)!r})"


ROOT = ModulePath()


_NUMBERED = re.compile(r"(.*?)0*([0-9]*)", re.DOTALL)


def by_value(name: str) -> tuple[bool, str, int, str, str]:
    """A sort key for names that are shown: numbers first, and these by their value, at the end of names too.

    >>> sorted(["b", "layer10", "10", "layer2", "9", "a"], key=by_value)
    ['9', '10', 'a', 'b', 'layer2', 'layer10']
    """
    match = _NUMBERED.fullmatch(name)
    base, digits = match.groups() if match else (name, "")
    return not name.isdecimal(), base, len(digits), digits, name


@lru_cache(maxsize=1 << 17)
def _parse(fqn: str) -> ModulePath:
    return ModulePath(tuple(fqn.split("."))) if fqn else ROOT


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """One call of one module, as the capture recorded it.

    Attributes:
        path: the module that was called.
        index: how many calls of that module, under that name, came before.
        via: the spelling under which it was reached, where that is not its path
            (a slice of a `ModuleList` is a list of its own to the capture).
        type_name: the dotted name of its class, where known.
        identity: what the capture used to tell module objects apart, or an empty string.
    """

    path: ModulePath
    index: int = 0
    via: str = ""
    type_name: str = field(default="", compare=False)
    identity: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.path}@{self.index}" if self.index else str(self.path)


Scope = tuple[ModuleCall, ...]
"""The calls that enclose an operator, outermost first; the root's own call is left out."""


def common_scope(a: Scope, b: Scope) -> Scope:
    """The calls that two scopes share, from the outermost inwards."""
    size = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        size += 1
    return a[:size]
