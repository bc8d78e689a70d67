"""What the modules that `from_nir` makes mean: the nodes that they were made of, with the values of now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import nir
import numpy as np
from torch import nn

from nir_bridge.exporting.modules.torch_nn import Entry
from nir_bridge.exporting.recipes import Given, LinearRecipe, Recipe, array
from nir_bridge.primitives.cuba import CubaLI, CubaLIF
from nir_bridge.primitives.delay import Delay
from nir_bridge.primitives.integrators import IF, I
from nir_bridge.primitives.leaky import LI, LIF
from nir_bridge.primitives.linear import Scale, StackedLinear
from nir_bridge.primitives.neuron import Neuron
from nir_bridge.primitives.pooling import SumPool2d
from nir_bridge.primitives.threshold import Threshold


def _stacked(module: StackedLinear, _: int) -> Recipe:
    return LinearRecipe(array(module.weight), None if module.bias is None else array(module.bias))


def _scale(module: Scale, _: int) -> Recipe:
    return Given(nir.Scale(array(module.scale)))


def _threshold(module: Threshold, _: int) -> Recipe:
    return Given(nir.Threshold(array(module.threshold)))


def _sum_pool(module: SumPool2d, _: int) -> Recipe:
    return Given(nir.SumPool2d(*(np.array(value) for value in (module.kernel_size, module.stride, module.padding))))


def _delay(module: Delay, _: int) -> Recipe:
    return Given(nir.Delay(np.array(module.delay, copy=True)))


def _neuron(kind: type[nir.NIRNode]) -> Entry:
    def make(module: Neuron, _: int) -> Recipe:
        return Given(kind(**{name: array(getattr(module, name)) for name in module.constants}))

    return Entry(make, kind.__name__, _shape)


def _shape(module: Any) -> tuple[int, ...] | None:
    return tuple(module.shape) or None


OWN: Final[Mapping[type[nn.Module], Entry]] = {
    StackedLinear: Entry(
        _stacked, "Affine, or Linear without a bias", lambda m: (*m.weight.shape[:-2], m.weight.shape[-1])
    ),
    Scale: Entry(_scale, "Scale", lambda module: tuple(module.scale.shape) or None),
    Threshold: Entry(_threshold, "Threshold", lambda module: tuple(module.threshold.shape) or None),
    SumPool2d: Entry(_sum_pool, "SumPool2d"),
    Delay: Entry(_delay, "Delay", _shape),
    I: _neuron(nir.I),
    LI: _neuron(nir.LI),
    IF: _neuron(nir.IF),
    LIF: _neuron(nir.LIF),
    CubaLI: _neuron(nir.CubaLI),
    CubaLIF: _neuron(nir.CubaLIF),
}
