"""What neurons of spiking frameworks mean in NIR. No framework is imported; classes are known by their names."""

from __future__ import annotations

from collections.abc import Mapping

from nir_bridge.frameworks.mapping import FrameworkMapper
from nir_bridge.frameworks.norse import NORSE
from nir_bridge.frameworks.sinabs import SINABS
from nir_bridge.frameworks.snntorch import SNNTORCH
from nir_bridge.frameworks.spikingjelly import SPIKINGJELLY


def framework_maps() -> Mapping[str, FrameworkMapper]:
    """What classes of frameworks mean, by their dotted names.

    Example:
        >>> framework_maps()["norse.torch.module.lif.LIFCell"].preset
        'norse'
    """
    return {**SNNTORCH, **NORSE, **SINABS, **SPIKINGJELLY}
