"""Names of the nodes of one graph: modules by their paths, then inputs, outputs and functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Names:
    """Names that are taken in a graph."""

    taken: set[str] = field(default_factory=set)

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
