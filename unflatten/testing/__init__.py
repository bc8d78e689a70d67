"""Strategies and assertions for testing what changes graphs and modules; needs the `testing` extra.

What concerns NIR graphs is imported when it is asked for, so that `nir` is needed only then.
"""

from __future__ import annotations

import importlib
from typing import Any

_NIR = ("assert_nir_round_trip", "assert_split_invariant", "dynamics", "nir_graphs", "states")


def __getattr__(name: str) -> Any:
    if name in _NIR:
        return getattr(importlib.import_module("unflatten.testing.nir"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NIR})
