"""Files of exported programs, read without running what their writers may have put into them.

What `torch.export.load` reads can run code in more ways than by pickles: expressions of sizes are evaluated, guards
are compiled, names become source. So everything is looked at first, and only what can't do harm is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unflatten.files.reading import load as load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from unflatten.files.reading import load  # noqa: PLC0415  # what a file is can be told without torch

    return load
