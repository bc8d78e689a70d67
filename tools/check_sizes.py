"""Fails if a file has more than 400 lines or a function more than 40.

    python tools/check_sizes.py unflatten nir_bridge tests tools

Docstrings don't count as a part of a function; tables that a tool wrote are left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 400
FUNCTION_LINES = 40
GENERATED = {"spelling_table.py"}


def too_long(path: Path) -> Iterator[str]:
    """What is too long in a file. A test's models are defined inside it, so only its own lines count."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            apart: list[ast.stmt] = [inner for inner in node.body if isinstance(inner, ast.ClassDef)]
            apart += node.body[:1] if ast.get_docstring(node) else []
            own = _length(node) - sum(map(_length, apart))
            if own > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {own} lines"


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def main(folders: list[str]) -> int:
    """Prints what is too long; 1 if anything is."""
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py") if path.name not in GENERATED)
    found = [problem for path in files for problem in too_long(path)]
    print("\n".join(found) or f"{len(files)} files, all of readable size")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
