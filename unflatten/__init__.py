"""Gives a flat PyTorch graph its module hierarchy back.

Names are imported when they are first used, so that the command line can answer without torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unflatten import source as source
    from unflatten.build import unflatten as unflatten
    from unflatten.errors import UnflattenError as UnflattenError
    from unflatten.info import Info as Info
    from unflatten.info import info as info
    from unflatten.modules import UnflattenedModule as UnflattenedModule
    from unflatten.recording.export import export as export
    from unflatten.rewrite.bypass import Bypass as Bypass
    from unflatten.rewrite.bypass import bypass as bypass
    from unflatten.rewrite.bypass import restore as restore
    from unflatten.rewrite.bypass_node import NodeBypass as NodeBypass
    from unflatten.rewrite.bypass_node import bypass_node as bypass_node
    from unflatten.rewrite.swap import swap as swap
    from unflatten.rewrite.swap_node import NodeSwap as NodeSwap
    from unflatten.rewrite.swap_node import swap_node as swap_node
    from unflatten.view.recording import record as record
    from unflatten.view.view import GraphView as GraphView
    from unflatten.view.view import diff as diff

__all__ = [
    "Bypass",
    "GraphView",
    "Info",
    "NodeBypass",
    "NodeSwap",
    "UnflattenError",
    "UnflattenedModule",
    "bypass",
    "bypass_node",
    "diff",
    "export",
    "info",
    "record",
    "restore",
    "source",
    "swap",
    "swap_node",
    "unflatten",
]

_HOMES = {
    "Bypass": "rewrite.bypass",
    "GraphView": "view.view",
    "Info": "info",
    "NodeBypass": "rewrite.bypass_node",
    "NodeSwap": "rewrite.swap_node",
    "UnflattenError": "errors",
    "UnflattenedModule": "modules",
    "bypass": "rewrite.bypass",
    "bypass_node": "rewrite.bypass_node",
    "diff": "view.view",
    "export": "recording.export",
    "info": "info",
    "record": "view.recording",
    "restore": "rewrite.bypass",
    "swap": "rewrite.swap",
    "swap_node": "rewrite.swap_node",
    "unflatten": "build",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if not name.startswith("__") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `unflatten.info` the function: importing a submodule sets it as an attribute of the package."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _HOMES:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
