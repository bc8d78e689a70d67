"""A neuron's step as frameworks compute it, and the node that gives the same step under a set of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import nir
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nir_bridge.dynamics import Dynamics
from nir_bridge.errors import ExportError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cell:
    """One step of a neuron: `i = decay_syn * i + x`, `v = decay * v + gain * i + (1 - decay) * leak`.

    Attributes:
        decay: what is left of the potential after a step; 1 for an integrator.
        gain: what the current, or the input where there is no synapse, counts for in the potential.
        decay_syn: what is left of the current; None without a synapse.
        leak: the potential at rest.
        threshold: what potentials are compared with; None for a neuron that gives its potential.
        reset_to: where spikes reset to.
        start: the potential that the neuron starts from.
        needs: the fields of `Dynamics` that have to be so.
    """

    decay: Array
    gain: Array = field(default_factory=lambda: np.ones(()))
    decay_syn: Array | None = None
    leak: Array = field(default_factory=lambda: np.zeros(()))
    threshold: Array | None = None
    reset_to: Array = field(default_factory=lambda: np.zeros(()))
    start: Array = field(default_factory=lambda: np.zeros(()))
    needs: Mapping[str, Any] = field(default_factory=dict)


def values(given: Any) -> Array:
    """A constant of a framework's module, as an array of its own.

    Raises:
        ExportError: it is on the meta device.
    """
    if isinstance(given, Tensor):
        if given.is_meta:
            raise ExportError("a constant of the neuron is on the meta device and has no values; load them first")
        given = given.detach().cpu().double().numpy()
    return np.array(given, np.float64)


def require(rules: Dynamics, preset: str, **wanted: Any) -> None:
    """Compares what a module needs with the rules.

    Raises:
        ExportError: they differ.
    """
    wrong = {name: value for name, value in wanted.items() if getattr(rules, name) != value}
    if wrong:
        have = ", ".join(f"{name}={getattr(rules, name)!r}" for name in wrong)
        changes = "".join(f", {name}={value!r}" for name, value in wrong.items())
        raise ExportError(
            f"it has another step than rules with {have} give; export, and import, with "
            f"dynamics=Dynamics.preset({preset!r}{changes})"
        )


def node_of(cell: Cell, rules: Dynamics, preset: str) -> nir.NIRNode:
    """The node that takes the cell's steps under the rules.

    Args:
        cell: the step.
        rules: how the graph is going to be run.
        preset: the framework's own rules, for messages.

    Raises:
        ExportError: no node does.
    """
    _check_shapes(cell)
    needs = dict(cell.needs)
    is_integrator = bool((cell.decay == 1).all())
    if cell.start.any() or (not is_integrator and cell.leak.any()):
        needs["initial_v"] = _start(cell, cell.reset_to if is_integrator and cell.threshold is not None else cell.leak)
    if cell.decay_syn is None:
        needs.pop("synapse", None)
    if cell.threshold is None:
        needs = {name: value for name, value in needs.items() if name in {"synapse", "initial_v"}}
    require(rules, preset, **needs)
    if rules.integration == "event":
        raise ExportError("its steps are no exact solution; export with the rules of its framework")
    if is_integrator and cell.decay_syn is None:
        fields = {"r": cell.gain / (1 if rules.if_gain == "r" else rules.dt)}
    else:
        fields = _leaky(cell, rules, preset)
    if cell.threshold is None:
        return _named(nir.I, nir.LI, nir.CubaLI, fields)
    _check_levels(cell, rules)
    return _named(nir.IF, nir.LIF, nir.CubaLIF, {**fields, "v_threshold": cell.threshold, "v_reset": cell.reset_to})


def _check_shapes(cell: Cell) -> None:
    names = ("decay", "gain", "decay_syn", "leak", "threshold", "reset_to")
    shapes = {name: getattr(cell, name).shape for name in names if getattr(cell, name) is not None}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        shown = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ExportError(f"the shapes of its constants don't fit together: {shown}") from None


def _start(cell: Cell, rest: Array) -> str:
    """How rules say where the neuron starts, which rests there too or is at zero.

    Raises:
        ExportError: it starts elsewhere.
    """
    if not cell.start.any():
        return "zero"
    if not (cell.start == rest).all():
        raise ExportError(f"it starts from a potential of {cell.start}, but rests at {rest}; NIR nodes start at rest")
    return "v_leak"


def _check_levels(cell: Cell, rules: Dynamics) -> None:
    if rules.multi_spike and cell.threshold is not None and (cell.threshold <= 0).any():
        raise ExportError("its threshold has to be positive where a step can give several spikes")


def _leaky(cell: Cell, rules: Dynamics, preset: str) -> dict[str, Array]:
    """Time constants and gains."""
    tau = _tau(cell.decay, rules, "the potential")
    leaky = {"r": _weight(cell.gain, tau, rules.input_gain, (rules, preset, "input_gain")), "v_leak": cell.leak}
    if cell.decay_syn is None:
        return {"tau": tau, **leaky}
    tau_syn = _tau(cell.decay_syn, rules, "the current")
    w_in = _weight(np.ones(()), tau_syn, rules.synapse_gain, (rules, preset, "synapse_gain"))
    return {"tau_mem": tau, "tau_syn": tau_syn, "w_in": w_in, **leaky}


def _tau(decay: Array, rules: Dynamics, what: str) -> Array:
    """The time constant of a decay.

    Raises:
        ExportError: there is none.
    """
    euler = rules.integration == "euler"
    if ((decay >= 1) | (decay < 0) | ((decay == 0) & (not euler))).any():
        low, high = float(decay.min()), float(decay.max())
        shown = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        raise ExportError(
            f"{what} keeps {shown} of itself in a step; a NIR node with a time constant keeps less than 1, and not "
            "less than 0"
        )
    return np.asarray(rules.dt / (1 - decay) if euler else -rules.dt / np.log(decay))


def _weight(gain: Array, tau: Array, kind: str, told: tuple[Dynamics, str, str]) -> Array:
    """The factor that makes an input count as it should."""
    rules, preset, name = told
    if kind == "one":
        if not (gain == 1).all():
            require(rules, preset, **{name: "dt/tau" if rules.integration == "euler" else "1-exp"})
        return np.ones(np.broadcast_shapes(gain.shape, tau.shape))
    share = rules.dt / tau if kind == "dt/tau" else -np.expm1(-rules.dt / tau)
    return np.asarray(gain / share)


def _named(plain: Any, leaky: Any, synaptic: Any, fields: Mapping[str, Array]) -> nir.NIRNode:
    """A node of the kind that has these fields, of one shape."""
    kind = synaptic if "tau_syn" in fields else leaky if "tau" in fields else plain
    shape = np.broadcast_shapes(*(value.shape for value in fields.values()))
    node: nir.NIRNode = kind(**{name: np.array(np.broadcast_to(value, shape)) for name, value in fields.items()})
    return node
