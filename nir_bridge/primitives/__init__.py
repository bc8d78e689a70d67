"""The primitives of NIR, a family a file: the equation, units and shapes, and the module that computes it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import nir

from nir_bridge.primitives.base import Primitive
from nir_bridge.primitives.conv import CONV1D, CONV2D
from nir_bridge.primitives.cuba import CubaLI, CubaLIF
from nir_bridge.primitives.delay import DELAY
from nir_bridge.primitives.flatten import FLATTEN
from nir_bridge.primitives.integrators import IF, I
from nir_bridge.primitives.leaky import LI, LIF
from nir_bridge.primitives.linear import LINEAR, SCALE
from nir_bridge.primitives.neuron import Neuron, gives, make, shape_of
from nir_bridge.primitives.pooling import AVG_POOL_2D, SUM_POOL_2D
from nir_bridge.primitives.threshold import THRESHOLD


def _neuron(kind: type[Neuron]) -> Primitive:
    return Primitive(partial(shape_of, kind), partial(gives, kind), partial(make, kind))


PRIMITIVES: Final[Mapping[type[nir.NIRNode], Primitive]] = {
    nir.Affine: LINEAR,
    nir.Linear: LINEAR,
    nir.Scale: SCALE,
    nir.Threshold: THRESHOLD,
    nir.Delay: DELAY,
    nir.Conv1d: CONV1D,
    nir.Conv2d: CONV2D,
    nir.SumPool2d: SUM_POOL_2D,
    nir.AvgPool2d: AVG_POOL_2D,
    nir.Flatten: FLATTEN,
    nir.I: _neuron(I),
    nir.LI: _neuron(LI),
    nir.IF: _neuron(IF),
    nir.LIF: _neuron(LIF),
    nir.CubaLI: _neuron(CubaLI),
    nir.CubaLIF: _neuron(CubaLIF),
}
