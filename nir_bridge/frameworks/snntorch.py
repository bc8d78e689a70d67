"""snnTorch's neurons: decays are given directly, inputs count in full, spikes come above the threshold.

What its default does, to subtract one step after the spike, is the rule `reset="snntorch_delayed"`, and
`reset_delay=False` is `"snntorch_subtract"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import nir
import numpy as np

from nir_bridge.dynamics import Dynamics
from nir_bridge.errors import ExportError
from nir_bridge.exporting.recipes import array
from nir_bridge.frameworks.cells import Array, Cell, node_of, require, values
from nir_bridge.frameworks.mapping import FrameworkMapper, acts_alone, by_name, connection, only, recurrent, refused

PRESET: Final = "snntorch"
_SUBTRACT, _ZERO = 0, 1


def _check(module: Any) -> None:
    """Refuses what changes the spikes of a neuron."""
    if module.inhibition:
        raise only("inhibition", True, "neurons that know nothing of each other", "switch it off")
    if module.state_quant:
        raise only("state_quant", module.state_quant, "states of full precision", "leave it out")
    factor = values(module.graded_spikes_factor)
    if (factor != 1).any():
        raise only("graded_spikes_factor", factor.tolist(), "spikes of 1", "put the factor into the layer behind")


def _reset(module: Any, zero_late: bool = False) -> str:
    """The rule for the reset.

    Args:
        module: the neuron.
        zero_late: whether a reset to zero in the step after the spike gives the same spikes as one in the same step.
    """
    kind, late = int(module.reset_mechanism_val), getattr(module, "reset_delay", True)
    if kind == _SUBTRACT:
        return "snntorch_delayed" if late else "snntorch_subtract"
    if kind != _ZERO:
        raise only("reset_mechanism", "none", "neurons that spikes reset", 'take "zero" or "subtract"')
    if late and not zero_late:
        raise only(
            "reset_mechanism", "zero", "resets that leave the next input alone", "where there is reset_delay, set False"
        )
    return "v_reset"


def _cell(module: Any, reset: str, decay: Array, gain: Any = 1.0, decay_syn: Array | None = None) -> Cell:
    _check(module)
    needs = {"spike_test": ">", "multi_spike": False, "output_lag": 0, "synapse": "new", "reset": reset}
    threshold = values(module.threshold)
    return Cell(decay, np.asarray(gain, np.float64), decay_syn, threshold=threshold, needs=needs)


def _share(value: Any) -> Array:
    """A decay, as the framework bounds it."""
    return np.clip(values(value), 0, 1)


def _leaky(module: Any, rules: Dynamics) -> nir.NIRNode:
    return node_of(_cell(module, _reset(module, zero_late=True), _share(module.beta)), rules, PRESET)


def _synaptic(module: Any, rules: Dynamics) -> nir.NIRNode:
    cell = _cell(module, _reset(module), _share(module.beta), decay_syn=_share(module.alpha))
    return node_of(cell, rules, PRESET)


def _lapicque(module: Any, rules: Dynamics) -> nir.NIRNode:
    step, capacity = values(module.time_step), values(module.C)
    decay = 1 - step / (values(module.R) * capacity)
    return node_of(_cell(module, _reset(module), decay, gain=step / capacity), rules, PRESET)


def _feedback(module: Any, rules: Dynamics) -> nir.NIRNode:
    layer = module.recurrent
    if not module.all_to_all:
        return nir.Scale(array(layer.V))
    found = connection(layer, "recurrent")
    if acts_alone(found):  # it acts at the first step, on spikes that are zero
        require(rules, PRESET, feedback="source")
    return found


def _rleaky(module: Any, rules: Dynamics) -> nir.NIRNode:
    cell = _cell(module, _reset(module), _share(module.beta))
    return recurrent(node_of(cell, rules, PRESET), _feedback(module, rules))


def _rsynaptic(module: Any, rules: Dynamics) -> nir.NIRNode:
    if not module.reset_delay:
        raise ExportError("reset_delay=False does not reset the membrane of an RSynaptic; leave it at True")
    cell = _cell(module, _reset(module), _share(module.beta), decay_syn=_share(module.alpha))
    return recurrent(node_of(cell, rules, PRESET), _feedback(module, rules))


def _mapper(file: str, name: str, make: Any) -> FrameworkMapper:
    return FrameworkMapper((f"snntorch._neurons.{file}.{name}",), PRESET, make, ("fire", "mem_reset"))


_OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "Alpha": ("alpha", "its potential is the difference of two currents"),
    "LeakyParallel": ("leakyparallel", "it takes all steps at once, through an RNN without resets"),
    "StateLeaky": ("stateleaky", "it takes all steps at once, without resets"),
    "DeltaLeaky": ("deltaleaky", "it takes differences of its input"),
    "AssociativeLeaky": ("associative", "its state is a matrix"),
    "SLSTM": ("slstm", "an LSTM squashes its values"),
    "SConv2dLSTM": ("sconv2dlstm", "an LSTM squashes its values"),
}

SNNTORCH: Final = by_name(
    _mapper("leaky", "Leaky", _leaky),
    _mapper("synaptic", "Synaptic", _synaptic),
    _mapper("lapicque", "Lapicque", _lapicque),
    _mapper("rleaky", "RLeaky", _rleaky),
    _mapper("rsynaptic", "RSynaptic", _rsynaptic),
    *(_mapper(file, name, refused(name, reason)) for name, (file, reason) in _OTHERS.items()),
)
