"""The maps of spiking frameworks, where this package has some."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping

from nir_bridge.setting import Mapper


def framework_maps() -> Mapping[str, Mapper]:
    """Mappers of the modules of frameworks, by the dotted names of their classes; no framework is imported."""
    if importlib.util.find_spec("nir_bridge.frameworks") is None:
        return {}
    found: Mapping[str, Mapper] = importlib.import_module("nir_bridge.frameworks").framework_maps()
    return found
