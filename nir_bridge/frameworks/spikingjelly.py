"""SpikingJelly's neurons: Euler steps, time constants in steps, spikes from the threshold on, start at the reset."""

from __future__ import annotations

from typing import Any, Final

import nir
import numpy as np
import torch
from torch import nn

from nir_bridge.dynamics import Dynamics
from nir_bridge.errors import ExportError
from nir_bridge.exporting.modules.torch_nn import TORCH
from nir_bridge.exporting.recipes import Recipe
from nir_bridge.frameworks.cells import Array, Cell, node_of, values
from nir_bridge.frameworks.mapping import FrameworkMapper, by_name, linear, names_of, only, recurrent, refused
from nir_bridge.setting import Setting

PRESET: Final = "spikingjelly"
_STEP: Final = (
    "neuronal_charge", "neuronal_fire", "neuronal_reset", "single_step_forward", "single_step_functional_forward",
)  # fmt: skip
_NEURON: Final = "spikingjelly.activation_based.neuron"
_LAYER: Final = "spikingjelly.activation_based.layer"


def _reset(module: Any) -> Array:
    """Where spikes reset to; zero where they subtract."""
    return values(0.0 if module.v_reset is None else module.v_reset)


def _needs(module: Any) -> dict[str, Any]:
    if not getattr(module.surrogate_function, "spiking", True):
        raise only("surrogate_function.spiking", False, "whole spikes", "set it to True")
    rule = "subtract" if module.v_reset is None else "v_reset"
    return {"spike_test": ">=", "multi_spike": False, "output_lag": 0, "synapse": "new", "reset": rule}


def _levels(module: Any) -> dict[str, Any]:
    reset = _reset(module)
    return {"threshold": values(module.v_threshold), "reset_to": reset, "start": reset, "needs": _needs(module)}


def _if(module: Any, rules: Dynamics) -> nir.NIRNode:
    return node_of(Cell(np.ones(()), **_levels(module)), rules, PRESET)


def _leaky(module: Any, share: Array, rules: Dynamics) -> nir.NIRNode:
    """A leaky neuron that loses a share of its potential in a step."""
    gain = share if module.decay_input else np.ones(())
    return node_of(Cell(1 - share, gain, leak=_reset(module), **_levels(module)), rules, PRESET)


def _lif(module: Any, rules: Dynamics) -> nir.NIRNode:
    return _leaky(module, np.asarray(1 / values(module.tau)), rules)


def _parametric(module: Any, rules: Dynamics) -> nir.NIRNode:
    return _leaky(module, values(torch.sigmoid(module.w.detach().double())), rules)


def _cuba(module: Any, rules: Dynamics) -> nir.NIRNode:
    cell = Cell(values(module.v_decay), decay_syn=values(module.c_decay), **_levels(module))
    return node_of(cell, rules, PRESET)


def _recurrent(module: Any, rules: Dynamics) -> nir.NIRNode:
    """A neuron whose input is a matrix times the input and its last output, one behind the other."""
    inner, layer = module.sub_module, module.rc
    found = next((SPIKINGJELLY[name] for name in names_of(inner) if name in SPIKINGJELLY), None)
    neuron = None if found is None else found(inner, Setting(None, rules))
    if not isinstance(neuron, nir.NIRNode) or isinstance(neuron, nir.NIRGraph):
        raise ExportError(f"sub_module is a {type(inner).__name__}; with a single neuron it can be written as a graph")
    split = layer.in_features - int(module.sub_module_out_features)
    weight = layer.weight.detach()
    return recurrent(neuron, linear(weight[:, split:]), linear(weight[:, :split], layer.bias))


def _plain(kind: type[nn.Module]) -> Any:
    """What a layer means that joins time and batch for torch's own."""
    make = TORCH[kind].make

    def meaning(module: nn.Module, _: Dynamics) -> Recipe:
        if make is None:
            raise ExportError(f"a {kind.__name__} is left out")
        return make(module, 1)

    return meaning


def _neuron(file: str, name: str, make: Any) -> FrameworkMapper:
    names = (f"{_NEURON}.{file}.{name}", f"{_NEURON}.{name}")
    return FrameworkMapper(names, PRESET, make, _STEP)


def _layer(file: str, kind: type[nn.Module]) -> FrameworkMapper:
    names = (f"{_LAYER}.{file}.{kind.__name__}", f"{_LAYER}.{kind.__name__}")
    return FrameworkMapper(names, PRESET, _plain(kind), is_neuron=False)


_CONTAINER: Final = (f"{_LAYER}.container.LinearRecurrentContainer", f"{_LAYER}.LinearRecurrentContainer")

SPIKINGJELLY: Final = by_name(
    *(_neuron("integrate_and_fire", name, _if) for name in ("IFNode", "SimpleIFNode")),
    *(_neuron("lif", name, _lif) for name in ("LIFNode", "SimpleLIFNode")),
    _neuron("plif", "ParametricLIFNode", _parametric),
    _neuron("lif_variants", "CUBALIFNode", _cuba),
    _neuron("nonlinear_if", "QIFNode", refused("QIFNode", "its leak is quadratic")),
    _neuron("nonlinear_if", "EIFNode", refused("EIFNode", "its leak is exponential")),
    _neuron("adapt", "IzhikevichNode", refused("IzhikevichNode", "its leak is quadratic")),
    _neuron("lif_variants", "KLIFNode", refused("KLIFNode", "it squashes its potential before it fires")),
    FrameworkMapper(_CONTAINER, PRESET, _recurrent),
    *(_layer("stateless_wrapper", kind) for kind in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.AvgPool2d, nn.Flatten)),
    *(_layer("bn", kind) for kind in (nn.BatchNorm1d, nn.BatchNorm2d)),
)
