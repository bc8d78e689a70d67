"""Groups of values that grow together: union-find."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Groups:
    """A partition of any hashable values; a value that was never joined is a group of its own.

    Which value stands for a group depends on the order of the joins, so only compare what `find` returns.
    """

    _above: dict[Hashable, Hashable] = field(default_factory=dict)

    def find(self, value: Hashable) -> Hashable:
        """What stands for the group of a value. Amortised time is logarithmic at most."""
        root = value
        while (above := self._above.get(root, root)) is not root:
            root = above
        while value is not root:
            self._above[value], value = root, self._above.get(value, root)
        return root

    def join(self, a: Hashable, b: Hashable) -> None:
        """Makes one group of the groups of two values."""
        self._above[self.find(a)] = self.find(b)
