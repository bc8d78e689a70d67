"""Norse's neurons: forward Euler with inverse time constants, spikes above the threshold, in cells and in series."""

from __future__ import annotations

from typing import Any, Final

import nir
import numpy as np

from nir_bridge.dynamics import Dynamics
from nir_bridge.frameworks.cells import Array, Cell, node_of, values
from nir_bridge.frameworks.mapping import FrameworkMapper, by_name, linear, only, recurrent, refused

PRESET: Final = "norse"


def _decay(module: Any, name: str) -> Array:
    """What is left after one of the module's own steps."""
    return np.asarray(1 - module.dt * values(getattr(module.p, name)))


def _needs(module: Any) -> dict[str, Any]:
    parameters = module.p
    if getattr(parameters, "method", "super") == "logistic":
        raise only("p.method", "logistic", "spikes without chance", 'take "super"')
    reset = getattr(getattr(parameters, "reset_method", None), "__name__", "reset_value")
    if reset not in {"reset_value", "reset_subtract"}:
        raise only("p.reset_method", reset, "resets to a value, and by the threshold", "take reset_value")
    rule = "v_reset" if reset == "reset_value" else "subtract"
    return {"spike_test": ">", "multi_spike": False, "output_lag": 0, "synapse": "new", "reset": rule}


def _leaky_cell(module: Any, synapse: bool, spikes: bool) -> Cell:
    """The step of a leaky neuron, which starts at rest."""
    decay, leak = _decay(module, "tau_mem_inv"), values(module.p.v_leak)
    decay_syn = _decay(module, "tau_syn_inv") if synapse else None
    if not spikes:
        return Cell(decay, 1 - decay, decay_syn, leak, start=leak, needs={"synapse": "new"})
    levels = values(module.p.v_th), values(module.p.v_reset)
    return Cell(decay, 1 - decay, decay_syn, leak, *levels, start=leak, needs=_needs(module))


def _lif(module: Any, rules: Dynamics) -> nir.NIRNode:
    return node_of(_leaky_cell(module, synapse=True, spikes=True), rules, PRESET)


def _lif_box(module: Any, rules: Dynamics) -> nir.NIRNode:
    return node_of(_leaky_cell(module, synapse=False, spikes=True), rules, PRESET)


def _li(module: Any, rules: Dynamics) -> nir.NIRNode:
    return node_of(_leaky_cell(module, synapse=True, spikes=False), rules, PRESET)


def _li_box(module: Any, rules: Dynamics) -> nir.NIRNode:
    return node_of(_leaky_cell(module, synapse=False, spikes=False), rules, PRESET)


def _iaf(module: Any, rules: Dynamics) -> nir.NIRNode:
    reset = values(module.p.v_reset)
    levels = {"threshold": values(module.p.v_th), "reset_to": reset, "start": reset}
    return node_of(Cell(np.ones(()), needs=_needs(module), **levels), rules, PRESET)


def _lif_recurrent(module: Any, rules: Dynamics) -> nir.NIRNode:
    return recurrent(_lif(module, rules), linear(module.recurrent_weights), linear(module.input_weights))


def _mapper(file: str, name: str, make: Any) -> FrameworkMapper:
    return FrameworkMapper((f"norse.torch.module.{file}.{name}",), PRESET, make)


def _refused(file: str, reason: str, *names: str) -> tuple[FrameworkMapper, ...]:
    return tuple(_mapper(file, name, refused(name, reason)) for name in names)


_ADAPTS = "its threshold or current adapts to its spikes"
_RESTS = "it rests for a while after a spike"

NORSE: Final = by_name(
    *(_mapper("lif", name, _lif) for name in ("LIFCell", "LIF")),
    *(_mapper("lif", name, _lif_recurrent) for name in ("LIFRecurrentCell", "LIFRecurrent")),
    _mapper("lif_box", "LIFBoxCell", _lif_box),
    *(_mapper("leaky_integrator", name, _li) for name in ("LICell", "LI")),
    _mapper("leaky_integrator_box", "LIBoxCell", _li_box),
    *(_mapper("iaf", name, _iaf) for name in ("IAFCell", "IAF")),
    *_refused("lif_adex", _ADAPTS, "LIFAdExCell", "LIFAdExRecurrentCell", "LIFAdEx", "LIFAdExRecurrent"),
    *_refused("lsnn", _ADAPTS, "LSNNCell", "LSNNRecurrentCell", "LSNN", "LSNNRecurrent"),
    *_refused("lif_ex", "its leak is exponential", "LIFExCell", "LIFExRecurrentCell", "LIFEx", "LIFExRecurrent"),
    *_refused("lif_refrac", _RESTS, "LIFRefracCell", "LIFRefracRecurrentCell", "LIFRefracRecurrent"),
    *_refused("izhikevich", "its leak is quadratic", "IzhikevichCell", "IzhikevichRecurrentCell", "Izhikevich"),
)
