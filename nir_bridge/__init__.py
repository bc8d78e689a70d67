"""NIR spiking-network graphs as torch modules.

Names are imported when they are first used, so that the package itself needs no `nir`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nir_bridge.dynamics import Dynamics as Dynamics
    from nir_bridge.dynamics import presets as presets
    from nir_bridge.errors import NIRBridgeError as NIRBridgeError
    from nir_bridge.files import read as read
    from nir_bridge.files import write as write
    from nir_bridge.importing import from_nir as from_nir
    from nir_bridge.module import NIRModule as NIRModule
    from nir_bridge.node_map import NodeMap as NodeMap
    from nir_bridge.state import State as State
    from nir_bridge.to_graph import to_nir as to_nir

__all__ = [
    "Dynamics",
    "NIRBridgeError",
    "NIRModule",
    "NodeMap",
    "State",
    "from_nir",
    "presets",
    "read",
    "to_nir",
    "write",
]

_HOMES = {
    "Dynamics": "dynamics",
    "NIRBridgeError": "errors",
    "NIRModule": "module",
    "NodeMap": "node_map",
    "State": "state",
    "from_nir": "importing",
    "presets": "dynamics",
    "read": "files",
    "to_nir": "to_graph",
    "write": "files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("nir", "h5py"):
            raise
        raise ModuleNotFoundError(
            f"{name} needs {error.name}: pip install 'torch-unflatten[nir]'", name=error.name
        ) from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
