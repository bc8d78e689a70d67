"""One step of every NIR primitive in numpy, written down from the equations and the rules of the frameworks.

Everything is in double precision, without torch, one step at a time, and slow.
"""

from __future__ import annotations

import itertools
from typing import Any

import nir
import numpy as np
from numpy.typing import NDArray

from nir_bridge import Dynamics

Array = NDArray[np.float64]
State = dict[str, Any]


def step(node: nir.NIRNode, x: Array, state: State, rules: Dynamics) -> Array:  # noqa: PLR0911
    """What a node gives for an input; its state is changed. An input without axes is zeros of an unknown shape."""
    if isinstance(node, nir.Input | nir.Output):
        return x
    if isinstance(node, nir.Linear | nir.Affine):
        weight = wide(node.weight)
        y = np.sum(weight * np.broadcast_to(x, (*weight.shape[:-2], weight.shape[-1]))[..., None, :], axis=-1)
        return y + wide(node.bias) if isinstance(node, nir.Affine) else y
    if isinstance(node, nir.Conv1d | nir.Conv2d):
        return convolution(node, x)
    if isinstance(node, nir.SumPool2d | nir.AvgPool2d):
        return pooling(node, x)
    if isinstance(node, nir.Flatten):
        return flattened(node, x)
    if isinstance(node, nir.Scale):
        return x * wide(node.scale)
    if isinstance(node, nir.Threshold):
        return fired(x, wide(node.threshold), rules, several=False)
    if isinstance(node, nir.Delay):
        return delayed(node, x, state, rules)
    return neuron(node, x, state, rules)


def wide(field: Any) -> Array:
    return np.asarray(field, np.float64)


def convolution(node: Any, x: Array) -> Array:
    weight, bias = wide(node.weight), wide(node.bias)
    rank = weight.ndim - 2
    if x.ndim == 0:
        if node.input_shape is None:
            return x
        x = np.zeros((weight.shape[1] * node.groups, *np.broadcast_to(node.input_shape, rank)))
    stride, dilation = np.broadcast_to(node.stride, rank), np.broadcast_to(node.dilation, rank)
    spread = [int(d) * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if node.padding == "same":
        pads = [(total // 2, total - total // 2) for total in spread]
    else:
        pads = [(int(p), int(p)) for p in np.broadcast_to(0 if node.padding == "valid" else node.padding, rank)]
    padded = np.pad(x, [(0, 0), *pads])
    sizes = [(n - s - 1) // int(st) + 1 for n, s, st in zip(padded.shape[1:], spread, stride, strict=True)]
    y = np.zeros((weight.shape[0], *sizes))
    share, each = weight.shape[1], weight.shape[0] // node.groups
    for out, at in itertools.product(range(weight.shape[0]), itertools.product(*map(range, sizes))):
        first = out // each * share
        window = tuple(
            slice(int(a * st), int(a * st) + s + 1, int(d))
            for a, st, s, d in zip(at, stride, spread, dilation, strict=True)
        )
        y[(out, *at)] = np.sum(weight[out] * padded[(slice(first, first + share), *window)]) + bias[out]
    return y


def pooling(node: Any, x: Array) -> Array:
    if x.ndim == 0:
        return x
    (kh, kw), (sh, sw), (ph, pw) = (np.broadcast_to(f, 2) for f in (node.kernel_size, node.stride, node.padding))
    padded = np.pad(x, [(0, 0), (ph, ph), (pw, pw)])
    height, width = (padded.shape[1] - kh) // sh + 1, (padded.shape[2] - kw) // sw + 1
    y = np.zeros((x.shape[0], height, width))
    for a, b in itertools.product(range(height), range(width)):
        y[:, a, b] = padded[:, a * sh : a * sh + kh, b * sw : b * sw + kw].sum((1, 2))
    return y / (kh * kw) if isinstance(node, nir.AvgPool2d) else y


def flattened(node: Any, x: Array) -> Array:
    shape = tuple(int(size) for size in node.input_type["input"])
    start, end = int(node.start_dim) % len(shape), int(node.end_dim) % len(shape)
    return np.broadcast_to(x, shape).reshape(*shape[:start], -1, *shape[end + 1 :])


def delayed(node: Any, x: Array, state: State, rules: Dynamics) -> Array:
    steps = np.floor(wide(node.delay) / rules.dt + 0.5).astype(int)
    past = state.setdefault("past", [])
    past.append(np.broadcast_to(x, np.broadcast_shapes(np.shape(x), steps.shape)).astype(np.float64))
    steps = np.broadcast_to(steps, past[-1].shape)
    y = np.zeros(past[-1].shape)
    for at in np.ndindex(y.shape):
        if steps[at] < len(past):
            y[at] = past[-1 - steps[at]][at]
    return y


def fired(v: Array, threshold: Array, rules: Dynamics, *, several: bool | None = None) -> Array:
    """How many spikes a potential gives."""
    if rules.multi_spike if several is None else several:
        ratio = v / threshold
        return np.maximum(np.floor(ratio) if rules.spike_test == ">=" else np.ceil(ratio) - 1, 0)
    return (v > threshold if rules.spike_test == ">" else v >= threshold).astype(np.float64)


def decay(tau: Array, rules: Dynamics) -> Array:
    return 1 - rules.dt / tau if rules.integration == "euler" else np.exp(-rules.dt / tau)


def gain(kind: str, tau: Array, weight: Array, rules: Dynamics) -> Any:
    return {"dt/tau": rules.dt / tau * weight, "1-exp": -np.expm1(-rules.dt / tau) * weight, "one": 1.0}[kind]


def neuron(node: Any, x: Array, state: State, rules: Dynamics) -> Array:
    """A step of a neuron: its potential, or its spikes."""
    spiking = isinstance(node, nir.IF | nir.LIF | nir.CubaLIF)
    leaky, synaptic = not isinstance(node, nir.I | nir.IF), isinstance(node, nir.CubaLI | nir.CubaLIF)
    if "v" not in state:
        rest = wide(node.v_leak) if leaky else wide(node.v_reset) if spiking else np.zeros(1)
        state.update(i=0.0, v=rest if rules.initial_v == "v_leak" else 0.0, out=[], last=0.0)
    if rules.integration == "event":
        return events(node, x, state, rules)
    before = state["v"]
    if not leaky:
        v = before + (wide(node.r) if rules.if_gain == "r" else rules.dt * wide(node.r)) * x
    else:
        tau = wide(node.tau_mem if synaptic else node.tau)
        drive = synapse(node, x, state, rules) if synaptic else x
        left = decay(tau, rules)
        v = left * before + (gain(rules.input_gain, tau, wide(node.r), rules) * drive + (1 - left) * wide(node.v_leak))
    if not spiking:
        state["v"] = v
        return v
    return late(reset(node, v, before, state, rules), state, rules)


def synapse(node: Any, x: Array, state: State, rules: Dynamics) -> Array:
    """The current that drives the potential."""
    tau, old = wide(node.tau_syn), state["i"]
    drive = gain(rules.synapse_gain, tau, wide(node.w_in), rules) * x
    left = decay(tau, rules)
    state["i"] = left * (old + drive) if rules.synapse == "decay_all" else left * old + drive
    return np.broadcast_to(old, np.shape(state["i"])) if rules.synapse == "old" else state["i"]


def reset(node: Any, v: Array, before: Array, state: State, rules: Dynamics) -> Array:
    """The spikes of a step; sets the potential after it."""
    threshold = wide(node.v_threshold)
    if rules.reset == "snntorch_subtract":
        last = (before > threshold).astype(np.float64)
        v = v - last * threshold
        spikes = fired(v, threshold, rules)
        state["v"] = v - (spikes - last) * threshold
    elif rules.reset == "subtract" and rules.output_lag and isinstance(node, nir.LIF):  # Spyx: after the decay
        v = v - state["last"] * threshold
        spikes = state["last"] = fired(v, threshold, rules)
        state["v"] = v
    else:
        spikes = fired(v, threshold, rules)
        hard = np.where(spikes > 0, np.broadcast_to(wide(node.v_reset), v.shape), v)
        state["v"] = hard if rules.reset == "v_reset" else v - spikes * threshold
    return spikes


def late(spikes: Array, state: State, rules: Dynamics) -> Array:
    """Spikes of some steps ago."""
    state["out"].append(spikes)
    return state["out"][-1 - rules.output_lag] if len(state["out"]) > rules.output_lag else np.zeros(spikes.shape)


def events(node: Any, x: Array, state: State, rules: Dynamics) -> Array:
    """A step of exact solutions, one neuron after the other."""
    names = ("tau", "tau_syn", "tau_mem", "r", "v_leak", "w_in", "v_threshold", "v_reset")
    held = {name: wide(getattr(node, name)) for name in names if hasattr(node, name)}
    shape = np.broadcast_shapes(np.shape(x), *(field.shape for field in held.values()), np.shape(state["v"]))
    held = {name: np.broadcast_to(field, shape) for name, field in held.items()}
    x = np.broadcast_to(x, shape)
    v, i = (np.array(np.broadcast_to(state[name], shape), np.float64) for name in ("v", "i"))
    spikes = np.zeros(shape)
    for at in np.ndindex(shape):
        one = {name: float(field[at]) for name, field in held.items()}
        v[at], i[at], spikes[at] = event(node, one, (float(v[at]), float(i[at]), float(x[at])), rules)
    state.update(v=v, i=i)
    return late(spikes, state, rules) if "v_threshold" in held else v


def event(node: Any, one: dict[str, float], now: tuple[float, float, float], rules: Dynamics) -> Any:
    """Potential, current and spikes of one neuron after a step; the times of its spikes are searched for."""
    v, i, x = now
    left, count = rules.dt, 0
    alone = isinstance(node, nir.CubaLIF) and not rules.multi_spike
    restart = one["v_reset"] if "v_reset" in one and rules.reset == "v_reset" else 0.0
    most = 1 if alone or restart >= one.get("v_threshold", 0.0) else 1_001
    while True:
        end_v, end_i = solved(node, one, (v, i, x), left, rules)
        if "v_threshold" not in one or count == most or end_v < one["v_threshold"]:
            break
        low, high = 0.0, left
        for _ in range(80):
            middle = (low + high) / 2
            reached = solved(node, one, (v, i, x), middle, rules)[0] >= one["v_threshold"]
            low, high = (low, middle) if reached else (middle, high)
        i = solved(node, one, (v, i, x), high, rules)[1]
        v = restart
        left, count = left - high, count + 1
    return end_v, end_i, float(count if rules.multi_spike else min(count, 1))


def solved(node: Any, one: dict[str, float], now: tuple[float, float, float], time: float, rules: Dynamics) -> Any:
    """Potential and current after some time without spikes."""
    v, i, x = now
    if isinstance(node, nir.I | nir.IF):
        return v + one["r"] * x * (time / rules.dt if rules.if_gain == "r" else time), i
    if isinstance(node, nir.LI | nir.LIF):
        goal = one["v_leak"] + one["r"] * x
        return goal + (v - goal) * np.exp(-time / one["tau"]), i
    slow, fast, to = one["tau_mem"], one["tau_syn"], one["w_in"] * x
    goal, rest = one["v_leak"] + one["r"] * to, i - to
    if slow == fast:
        part = time / slow * np.exp(-time / slow)
    else:
        part = fast / (fast - slow) * (np.exp(-time / fast) - np.exp(-time / slow))
    return goal + (v - goal) * np.exp(-time / slow) + one["r"] * rest * part, to + rest * np.exp(-time / fast)
