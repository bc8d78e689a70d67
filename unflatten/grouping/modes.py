"""Which modes a call runs under because its caller set them, and which its own code sets.

An operator's mode says what was in force, and whose code entered the block. A call is *ambient* in a mode
if it has operators that a block outside of it put there, and every other operator of it was put there, or
elsewhere, by a block inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unflatten.flat.values import FlatNode, Mode, Modes
from unflatten.grouping.drafts import Draft
from unflatten.grouping.grouping import Grouping
from unflatten.paths import common_scope

_Seen = dict[str, dict[tuple[object, int] | None, None]]


def ambient_modes(grouping: Grouping) -> Mapping[Draft, Modes]:
    """The modes that each call is entered under."""
    if not any(node.modes for node in grouping.program.nodes):
        return {}
    kinds = {mode.kind for node in grouping.program.nodes for mode in node.modes}
    seen: dict[Draft, _Seen] = {}
    for draft in reversed(list(grouping.drafts())):
        found: _Seen = {kind: {} for kind in kinds}
        for node in draft.nodes:
            _note(found, node)
        for child in draft.children:
            for kind in kinds:
                found[kind].update(seen[child][kind])
        seen[draft] = found
    return {draft: _ambient(draft, found) for draft, found in seen.items() if draft.parent is not None}


def _note(found: _Seen, node: FlatNode) -> None:
    """Records, for each kind, the value and how deep the block is that set it; None where none did."""
    values = {mode.kind: mode for mode in node.modes}
    for kind, entries in found.items():
        mode = values.get(kind)
        depth = len(common_scope(mode.opener, node.scope or ())) if mode else 0
        entries[(mode.value, depth) if mode else None] = None


def _ambient(draft: Draft, found: _Seen) -> Modes:
    modes = []
    for kind in sorted(found):
        entries = found[kind]
        outside = {entry[0] for entry in entries if entry and entry[1] < draft.depth}
        if len(outside) == 1 and None not in entries:
            modes.append(Mode(kind, outside.pop()))
    return tuple(modes)


def added_modes(inner: Iterable[Mode], outer: Iterable[Mode]) -> Modes:
    """The modes that a block has to set for code under `inner` where `outer` is in force."""
    present = set(outer)
    return tuple(mode for mode in inner if mode not in present)
