"""What neurons of spiking frameworks mean in NIR. No framework is imported; classes are known by their names."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from nir_bridge.frameworks.mapping import FrameworkMapper, names_of
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


def presets_in(model: nn.Module) -> list[str]:
    """The presets of the frameworks that a model has neurons of, in the order in which they come."""
    maps = framework_maps()
    known = [maps[name] for module in model.modules() for name in names_of(module) if name in maps]
    return list(dict.fromkeys(mapper.preset for mapper in known if mapper.is_neuron))
