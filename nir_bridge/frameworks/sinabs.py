"""Sinabs' layers: exponential decays with time constants in steps, several spikes a step, subtraction."""

from __future__ import annotations

from typing import Any, Final

import nir
import numpy as np

from nir_bridge.dynamics import Dynamics
from nir_bridge.errors import ExportError
from nir_bridge.frameworks.cells import Array, Cell, node_of, require, values
from nir_bridge.frameworks.mapping import FrameworkMapper, acts_alone, by_name, connection, only, recurrent, refused

PRESET: Final = "sinabs"
_MULTI: Final = {"MultiSpike": True, "SingleSpike": False}


def _name(given: Any) -> str:
    """The name of a class, or of that of an instance."""
    return str(getattr(given, "__name__", type(given).__name__))


def _needs(module: Any) -> dict[str, Any]:
    spikes, reset = _name(module.spike_fn), module.reset_fn
    if spikes not in _MULTI:
        raise only("spike_fn", spikes, "one spike a step, or as many as fit", "take MultiSpike or SingleSpike")
    if _name(reset) == "MembraneSubtract" and reset.subtract_value is None:
        rule = "subtract"
    elif _name(reset) == "MembraneReset" and reset.reset_value == 0:
        rule = "v_reset"
    else:
        raise only("reset_fn", reset, "subtraction of the threshold, and resets", "take MembraneSubtract()")
    return {"spike_test": ">=", "multi_spike": _MULTI[spikes], "reset": rule, "synapse": "decay_all", "output_lag": 0}


def _decay(module: Any, name: str) -> Array | None:
    """A decay; None where the module has no such time constant."""
    if module.train_alphas:
        alpha = getattr(module, f"alpha_{name}")
        return None if alpha is None else values(alpha)
    tau = getattr(module, f"tau_{name}")
    return None if tau is None else np.exp(-1 / values(tau))


def _cell(module: Any, spikes: bool) -> Cell:
    if module.min_v_mem is not None:
        raise only("min_v_mem", module.min_v_mem.tolist(), "potentials without a lowest value", "leave it out")
    found = _decay(module, "mem")
    decay = np.ones(()) if found is None else found
    gain = 1 - decay if module.norm_input else np.ones(())
    decay_syn = _decay(module, "syn")
    if not spikes:
        return Cell(decay, gain, decay_syn)
    return Cell(decay, gain, decay_syn, threshold=values(module.spike_threshold), needs=_needs(module))


def _lif(module: Any, rules: Dynamics) -> nir.NIRNode:
    return node_of(_cell(module, spikes=True), rules, PRESET)


def _leak(module: Any, rules: Dynamics) -> nir.NIRNode:
    return node_of(_cell(module, spikes=False), rules, PRESET)


def _lif_recurrent(module: Any, rules: Dynamics) -> nir.NIRNode:
    feedback = connection(module.rec_connect, "rec_connect")
    if acts_alone(feedback):  # nothing comes back in the first step
        require(rules, PRESET, feedback="target")
    return recurrent(_lif(module, rules), feedback)


def _merge(module: Any, _: Dynamics) -> nir.NIRNode:
    raise ExportError(f"a {type(module).__name__} adds two signals; write a + b, so that their edges can be joined")


def _mapper(file: str, name: str, make: Any) -> FrameworkMapper:
    return FrameworkMapper((f"sinabs.layers.{file}.{name}",), PRESET, make)


_ADAPTS: Final = "its threshold adapts to its spikes"

SINABS: Final = by_name(
    *(_mapper("lif", name, _lif) for name in ("LIF", "LIFSqueeze")),
    *(_mapper("iaf", name, _lif) for name in ("IAF", "IAFSqueeze")),
    *(_mapper("exp_leak", name, _leak) for name in ("ExpLeak", "ExpLeakSqueeze")),
    _mapper("lif", "LIFRecurrent", _lif_recurrent),
    _mapper("iaf", "IAFRecurrent", _lif_recurrent),
    *(_mapper("alif", name, refused(name, _ADAPTS)) for name in ("ALIF", "ALIFRecurrent", "ALIFSqueeze")),
    _mapper("pool2d", "SpikingMaxPooling2dLayer", refused("SpikingMaxPooling2dLayer", "it takes the largest")),
    _mapper("merge", "Merge", _merge),
)
