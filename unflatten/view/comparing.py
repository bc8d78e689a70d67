"""What two graphs do differently, module by module."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from unflatten.paths import ROOT, ModulePath
from unflatten.view.index import WORK, Index
from unflatten.view.order import walked
from unflatten.view.values import Phase

_Place = tuple[ModulePath, int, str, Phase]


@dataclass(frozen=True, slots=True)
class Change:
    """How the own operators of one call differ.

    Attributes:
        call: the call, as `path` or `path@1`; empty for the root.
        phase: the phase.
        removed: operators that only the first graph has there, with their number.
        added: operators that only the second has.
    """

    call: str
    phase: Phase
    removed: tuple[tuple[str, int], ...]
    added: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        signs = [f"-{count} {name}" for name, count in self.removed] + [
            f"+{count} {name}" for name, count in self.added
        ]
        return f"{self.call or '(root)'} {self.phase.value}: {', '.join(signs)}"


@dataclass(frozen=True, slots=True)
class Diff:
    """What two graphs do differently; true in a condition if anything."""

    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "no difference"

    __repr__ = __str__


def compare(first: Index, second: Index) -> Diff:
    """Compares the operators of each call; their order inside of a call does not count.

    Changes come in the model's order, calls by number, phases by name.
    """
    left, right = _operators(first), _operators(second)
    rank = {path: at for at, path in enumerate(walked(first.children, second.children))}
    changes = []
    for place in sorted({*left, *right}, key=lambda each: (rank[each[0]], each[1], each[2], each[3].value)):
        removed = left.get(place, Counter()) - right.get(place, Counter())
        added = right.get(place, Counter()) - left.get(place, Counter())
        if removed or added:
            changes.append(Change(*place[2:], tuple(sorted(removed.items())), tuple(sorted(added.items()))))
    return Diff(tuple(changes))


def _operators(index: Index) -> dict[_Place, Counter[str]]:
    found: dict[_Place, Counter[str]] = {}
    for node in index.nodes:
        owner = index.owners[node]
        if owner.kind in WORK:
            call = owner.scope[-1] if owner.scope else None
            place = (call.path, call.index, str(call), owner.phase) if call else (ROOT, 0, "", owner.phase)
            found.setdefault(place, Counter())[str(node.target)] += 1
    return found
