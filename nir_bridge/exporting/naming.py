"""Names of the nodes of one graph: modules by their paths, then inputs, outputs and functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Names:
    """Names that are taken in a graph."""

    taken: set[str] = field(default_factory=set)
    suffixes: dict[str, set[str]] | None = None

    def behind(self, name: str) -> frozenset[str]:
        """What stands behind a name and a dot in others."""
        if self.suffixes is None:
            self.suffixes = {}
            for other in self.taken:
                for at, char in enumerate(other):
                    if char == ".":
                        self.suffixes.setdefault(other[:at], set()).add(other[at + 1 :])
        return frozenset(self.suffixes.get(name, ()))

    def reserve(self, names: Iterable[str]) -> None:
        """Keeps names, and what stands before a dot in them, from being given."""
        for name in names:
            parts = name.split(".")
            self.taken.update(".".join(parts[:size]) for size in range(1, len(parts)))

    def unique(self, base: str, mark: str = "_{}") -> str:
        """A name that nothing has: the one asked for, or that with a number behind."""
        name, count = base, 0
        while name in self.taken:
            count += 1
            name = base + mark.format(count)
        self.taken.add(name)
        return name
