"""Completion of module paths, from the text of the file alone: without torch, so that it is quick."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

from unflatten.paths import by_value

_LARGEST = 32 << 20
"""The bytes of a program's text up to which it is searched while somebody waits."""
_STACK = re.compile(rb'"nn_module_stack": "((?:[^"\\]|\\.)*)"')


def complete_path(ctx: Any, incomplete: str) -> list[str]:
    """The modules of the file that was named before whose paths begin so, one level at a time."""
    # An option without its value ends the parsing before arguments are told apart.
    file = ctx.params.get("file") or next((each for each in ctx.args if not each.startswith("-")), None)
    if not isinstance(file, str) or file == "-":
        return []
    try:
        found = module_paths(Path(file))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return []
    depth = incomplete.count(".") + 1
    return [path for path in found if path.startswith(incomplete) and path.count(".") < depth]


def module_paths(file: Path) -> list[str]:
    """The paths of the modules that a program calls, and of those that hold them."""
    with zipfile.ZipFile(file) as archive:
        text = next((each for each in archive.infolist() if each.filename.endswith("/models/model.json")), None)
        if text is None or text.file_size > _LARGEST:
            return []
        stacks = {match.group(1) for match in _STACK.finditer(archive.read(text))}
    found: dict[str, None] = {}
    for entry in sorted({entry for stack in stacks for entry in stack.split(b";")}):
        path = entry.decode().partition(",")[2].partition(",")[0].partition("@")[0]
        names = path.split(".")
        found.update(dict.fromkeys(".".join(names[:size]) for size in range(1, len(names) + 1) if path))
    shown = [path for path in found if path.isprintable()]
    return sorted(shown, key=lambda path: [by_value(name) for name in path.split(".")])
