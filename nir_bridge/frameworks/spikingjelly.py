"""SpikingJelly's neurons: Euler steps, time constants in steps, spikes from the threshold on, start at the reset."""

from __future__ import annotations

from typing import Any, Final

import nir
import numpy as np
import torch
from torch import nn

from nir_bridge.dynamics import Dynamics
from nir_bridge.errors import ExportError
from nir_bridge.exporting.recipes import array
from nir_bridge.frameworks.cells import Array, Cell, node_of, values
from nir_bridge.frameworks.mapping import FrameworkMapper, by_name, linear, names_of, only, recurrent, refused

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
    if found is None or found.make is _recurrent or not isinstance(layer, nn.Linear):
        raise ExportError(f"sub_module is a {type(inner).__name__}; a single neuron can be written as a graph")
    split = layer.in_features - int(module.sub_module_out_features)
    weight = layer.weight.detach()
    return recurrent(found.make(inner, rules), linear(weight[:, split:]), linear(weight[:, :split], layer.bias))


def _linear(module: Any, _: Dynamics) -> nir.NIRNode:
    return linear(module.weight, module.bias)


def _conv(module: Any, _: Dynamics) -> nir.NIRNode:
    if module.padding_mode != "zeros":
        raise only("padding_mode", module.padding_mode, "padding with zeros", "pad the input yourself")
    bias = np.zeros(module.out_channels, np.float32) if module.bias is None else array(module.bias)
    fields: tuple[Any, ...] = (module.stride, module.padding, module.dilation)
    if isinstance(module, nn.Conv1d):
        fields = tuple(value if isinstance(value, str) else value[0] for value in fields)
        return nir.Conv1d(None, array(module.weight), *fields, module.groups, bias)
    return nir.Conv2d(None, array(module.weight), *fields, module.groups, bias)


def _neuron(file: str, name: str, make: Any) -> FrameworkMapper:
    names = (f"{_NEURON}.{file}.{name}", f"{_NEURON}.{name}")
    return FrameworkMapper(names, PRESET, make, _STEP)


def _layer(name: str, make: Any) -> FrameworkMapper:
    return FrameworkMapper((f"{_LAYER}.stateless_wrapper.{name}", f"{_LAYER}.{name}"), PRESET, make, is_neuron=False)


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
    _layer("Linear", _linear),
    _layer("Conv1d", _conv),
    _layer("Conv2d", _conv),
)
