"""What mappers of modules are told beside the module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import nir
from torch import nn

from nir_bridge.dynamics import Dynamics


@dataclass(frozen=True, slots=True)
class Setting:
    """How a model's neurons are to be written.

    Attributes:
        dt: the length of a step in seconds, where the caller gave one.
        dynamics: the rules by which the graph is going to be run; its `dt` is the caller's, where there is one.
    """

    dt: float | None
    dynamics: Dynamics


Mapper = Callable[[nn.Module, Setting], nir.NIRNode]
"""From a module to its node; a recurrent neuron gives a graph with an Input and an Output."""
