"""How notebooks show modules and views: by what stands above, since drawing needs all that is here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Shower = Callable[[Any], str | None]

_showers: dict[str, Shower] = {}


def show_with(kind: str, shower: Shower) -> None:
    """Sets what makes one kind of text, `html` or `svg`, of anything that can be drawn; None where it can't."""
    _showers[kind] = shower


def shown(kind: str, obj: object) -> str | None:
    """Text of one kind for a notebook, None where there is none."""
    if not _showers:  # a notebook asks for the first time
        importlib.import_module("unflatten.render.in_notebooks").install()
    shower = _showers.get(kind)
    return None if shower is None else shower(obj)
