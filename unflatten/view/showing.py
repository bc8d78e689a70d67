"""A tree of modules as text, with the number of nodes in each phase."""

from __future__ import annotations

from unflatten.paths import ModulePath
from unflatten.view.index import Index
from unflatten.view.values import Phase


def tree(index: Index, root: ModulePath) -> str:
    """The tree below a module, the number of nodes of each with it."""
    lines: list[str] = []
    stack: list[tuple[ModulePath | None, int, str]] = [(root, 0, "")]
    while stack:
        path, depth, label = stack.pop()
        margin = "  " * depth
        if path is None:
            lines.append(f"{margin})")
            continue
        inside = index.children.get(path, [])
        head = f"{margin}{label}{_name(index, path)}({_counts(index, path)}"
        lines.append(head if inside else f"{head})")
        if inside:
            stack.append((None, depth, ""))
            stack.extend((path / name, depth + 1, f"({name}): ") for name in reversed(inside))
    return "\n".join(lines)


def _name(index: Index, path: ModulePath) -> str:
    return index.types.get(path, "").rpartition(".")[2] or "Module"


def _counts(index: Index, path: ModulePath) -> str:
    counts = ((phase.value, index.count(path, phase)) for phase in Phase)
    found = [f"{name} {count}" for name, count in counts if count]
    calls = len(index.calls.get(path, ()))
    return ", ".join([*found, *([f"calls {calls}"] if calls > 1 else [])]) or "no nodes"
