"""Whole series: step by step, or stage by stage, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.calls import admit, batch_of, check_state
from nir_bridge.compiled import Run
from nir_bridge.errors import CallError, RecordError
from nir_bridge.flattening import Path
from nir_bridge.plan import Network, Plan
from nir_bridge.primitives.delay import Delay
from nir_bridge.primitives.neuron import Neuron
from nir_bridge.recording import Wanted, stepped_record, wanted
from nir_bridge.stages import Stages
from nir_bridge.state import State, at_path, nested

Recorded = Mapping[str, Tensor]
PLAN = "@nir"
COMPILED = "@compiled"


def run_series(
    module: nn.Module, xs: Any, state: State | None, time_dim: int, record: tuple[str, ...], layerwise: bool
) -> tuple[Any, State, Recorded]:
    """What `NIRModule.run` does."""
    plan: Plan = module.__dict__[PLAN]
    _check_call(xs, time_dim, record)
    series, time_dim = _series(plan, xs, time_dim)
    batch = batch_of(plan, [values[0] for values in series])
    if plan.stateful and state is None:
        state = module.initial_state(batch or (), series[0])  # type: ignore[operator]
    elif plan.stateful:
        check_state(module, state, batch)  # type: ignore[arg-type]
    asked = wanted(plan, record)
    _check_parts(module, plan, asked)
    modules = _modules(module, plan.network) if layerwise and plan.network is not None else None
    if modules is not None and plan.network is not None and state is not None:
        outputs, state, kept = _staged(module, plan, modules, series, state, asked)
    else:
        outputs, state, kept = _stepped(module, plan, series, state, asked)
    ys: Any = {name: values.movedim(0, time_dim) for name, values in outputs.items()}
    recorded = {name: values.movedim(0, time_dim) for name, values in kept.items()}
    return ys if len(plan.outputs) != 1 else ys[plan.outputs[0]], state or State(), MappingProxyType(recorded)


def _check_call(xs: Any, time_dim: Any, record: Any) -> None:
    """Checks the kinds of what a run is called with."""
    if not isinstance(xs, Tensor | Mapping | tuple | list):
        raise CallError(f"the series is a {type(xs).__name__}; give a tensor, or a tuple or a dict of them")
    if not isinstance(time_dim, int) or isinstance(time_dim, bool):
        raise CallError(f"time_dim is {time_dim!r}; the number of an axis is needed")
    if not all(isinstance(name, str) for name in record):
        raise RecordError(f"record is {record!r}; a sequence of paths is needed")


def _check_parts(module: nn.Module, plan: Plan, asked: Mapping[str, Wanted]) -> None:
    for name, want in asked.items():
        if want.part is not None and plan.network is not None:
            neuron = _at(module, plan.network.units[want.node].path)
            parts = neuron.parts if isinstance(neuron, Neuron) else ()
            if want.part not in parts:
                known = f"it has {', '.join(parts)}" if parts else "only neurons have a state that is recorded"
                raise RecordError(
                    f"can't record {name!r}: the state of {type(neuron).__name__} has no {want.part!r}; {known}"
                )


def _series(plan: Plan, xs: Any, time_dim: int) -> tuple[list[Tensor], int]:
    """The inputs, time first, and where the time axis was, counted from the front."""
    if isinstance(xs, Mapping):
        inputs, _ = admit(plan, (), xs)
    else:
        inputs, _ = admit(plan, (xs,) if isinstance(xs, Tensor) else tuple(xs), {})
    axis = time_dim + inputs[0].dim() if time_dim < 0 else time_dim
    for port, values in zip(plan.ports, inputs, strict=True):
        if not 0 <= axis < values.dim() - len(port.shape or ()):
            raise CallError(
                f"input {port.name!r} of shape {tuple(values.shape)} has no time axis {time_dim} before {port.shape}"
            )
    series = [values.movedim(axis, 0) for values in inputs]
    lengths = {values.shape[0] for values in series}
    if len(lengths) > 1 or 0 in lengths:
        raise CallError(
            f"a series needs at least one step, and all inputs the same number; there are {sorted(lengths)}"
        )
    return series, axis


def _modules(module: nn.Module, network: Network) -> list[nn.Module | None] | None:
    """The modules of the nodes; None where only stepping calls everything that is there now."""
    for path in network.groups:
        group = _at(module, path)
        if group is None or PLAN not in group.__dict__ or _is_hooked(group):
            return None
    found: list[nn.Module | None] = []
    for unit in network.units:
        made = _at(module, unit.path) if unit.has_module else None
        if unit.has_module and (made is None or _is_hooked(made)):
            return None
        found.append(made)
    return None if _is_hooked(module) else found


def _is_hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _at(module: nn.Module, path: Path) -> nn.Module | None:
    found: nn.Module | None = module
    for name in path:
        found = found._modules.get(name) if found is not None else None
    return found


def _staged(
    module: nn.Module,
    plan: Plan,
    modules: list[nn.Module | None],
    series: list[Tensor],
    state: State,
    asked: Mapping[str, Wanted],
) -> tuple[dict[str, Tensor], State, dict[str, Tensor]]:
    """Stage by stage."""
    network = plan.network
    if network is None:
        raise CallError("only a whole network is run stage by stage")
    layout = _Layout(network, modules)
    keep: dict[int, tuple[str, ...]] = {}
    for want in asked.values():
        if want.part is not None:
            keep[want.node] = tuple(dict.fromkeys((*keep.get(want.node, ()), want.part)))
    nodes = tuple(dict.fromkeys((*(node for _, node in network.outputs), *(want.node for want in asked.values()))))
    run = Run(Stages(network, modules), tuple(node for _, node in network.inputs), nodes, keep)
    compiled = module.__dict__.get(COMPILED)
    call = run if compiled is None else compiled.chunked(run, series[0].shape[0])
    found, states, previous, kept = call(series, *layout.unpacked(state))
    outputs = {name: found[node] for name, node in network.outputs}
    recorded = {
        name: found[want.node] if want.part is None else kept[want.node, want.part] for name, want in asked.items()
    }
    return outputs, layout.packed(states, previous), recorded


class _Layout:
    """Where the state of each node is in the state of the network."""

    def __init__(self, network: Network, modules: Sequence[nn.Module | None]) -> None:
        self.modules = modules
        self.paths = {at: unit.path for at, unit in enumerate(network.units) if unit.stateful}
        self.previous = network.previous

    def unpacked(self, state: State) -> tuple[dict[int, Any], dict[int, Tensor]]:
        """The state of each node, and the last value of each that is fed back."""
        states = {node: _opened(self.modules[node], at_path(state, path)) for node, path in self.paths.items()}
        return states, {node: at_path(state, path) for node, path in self.previous}

    def packed(self, states: Mapping[int, Any], previous: Mapping[int, Tensor]) -> State:
        """The state of the network."""
        parts = {path: _closed(self.modules[node], states[node]) for node, path in self.paths.items()}
        return nested({**parts, **{path: previous[node] for node, path in self.previous}})


def _opened(module: nn.Module | None, state: Any) -> Any:
    if isinstance(module, Neuron):
        return module.values(state)
    return state["past"] if isinstance(module, Delay) else state


def _closed(module: nn.Module | None, state: Any) -> Any:
    if isinstance(module, Neuron):
        return module.state(state)
    return State(past=state) if isinstance(module, Delay) else state


def _stepped(
    module: nn.Module, plan: Plan, series: list[Tensor], state: State | None, asked: Mapping[str, Wanted]
) -> tuple[dict[str, Tensor], State | None, dict[str, Tensor]]:
    """Step by step."""
    outputs: dict[str, list[Tensor]] = {name: [] for name in plan.outputs}
    with stepped_record(module, plan, asked) as recorder:
        for step in range(series[0].shape[0]):
            inputs = [values[step] for values in series]
            if plan.stateful:
                y, state = module(*inputs, state)
            else:
                y = module(*inputs)
            for name, found in outputs.items():
                found.append(y if len(outputs) == 1 else y[name])
            recorder.step(state)
    stacked = {name: torch.stack(found) for name, found in outputs.items()}
    return stacked, state, recorder.series()
