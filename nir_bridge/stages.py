"""A network run stage by stage: each node for all steps at once, the nodes of a cycle together, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.bodies import silence
from nir_bridge.plan import Network, Unit
from nir_bridge.primitives.delay import Delay
from nir_bridge.primitives.linear import Scale, StackedLinear
from nir_bridge.primitives.neuron import Neuron
from nir_bridge.primitives.pooling import SumPool2d
from nir_bridge.primitives.threshold import Threshold
from nir_bridge.state import State

_ANY_AXES = (nn.Linear, StackedLinear, Scale, Threshold, nn.Flatten)
"""Modules that treat all leading axes as batch axes."""
_IMAGES = {nn.Conv1d: 2, nn.Conv2d: 3, nn.AvgPool2d: 3, SumPool2d: 3}
"""Modules that take one batch axis, with the number of axes behind it."""

Values = dict[int, Any]
"""The state of each node by number: the tensors of a neuron, or what a module of another kind returned."""


@dataclass(slots=True)
class Flow:
    """What goes on while stages run.

    Attributes:
        series: the values of each node, time first.
        states: the state of each node.
        previous: the last value of each node that is fed back.
        keep: for each node, the parts of its state to keep for every step.
        kept: what was kept, by node and part.
    """

    series: dict[int, Tensor]
    states: Values
    previous: dict[int, Tensor]
    keep: dict[int, tuple[str, ...]] = field(default_factory=dict)
    kept: dict[tuple[int, str], Tensor] = field(default_factory=dict)


class Stages:
    """The stages of a network, with the modules that its nodes have now."""

    def __init__(self, network: Network, modules: Sequence[nn.Module | None]) -> None:
        self.units = network.units
        self.stages = network.stages
        self.modules = modules
        self.silent_axes = network.silent_axes
        self.given = frozenset(node for _, node in network.inputs)
        self.first = network.inputs[0][1]

    def run(self, flow: Flow) -> None:
        """Runs all stages over the series of the inputs."""
        for stage in self.stages:
            if len(stage) == 1 and not any(term.delayed for term in self.units[stage[0]].terms):
                self.alone(stage[0], flow)
            else:
                _Loop(self, stage, flow).run()

    def alone(self, node: int, flow: Flow) -> None:
        """The whole series of a node that is on no cycle."""
        unit = self.units[node]
        if unit.silent is not None:
            flow.series[node] = silence(flow.series[self.first], self.silent_axes, unit.silent)
            return
        own = [flow.series[node]] if node in self.given else []
        xs = summed([*own, *(flow.series[term.source] for term in unit.terms)])
        module = self.modules[node]
        if module is None:
            flow.series[node] = xs
        elif isinstance(module, Neuron):
            keep = flow.keep.get(node, ())
            flow.series[node], flow.states[node], kept = module.series(xs, flow.states[node], keep)
            flow.kept.update({(node, name): values for name, values in kept.items()})
        elif isinstance(module, Delay):
            flow.series[node], flow.states[node] = _delayed(module, xs, flow.states[node])
        else:
            flow.series[node] = self.other(node, module, xs, flow)

    def other(self, node: int, module: nn.Module, xs: Tensor, flow: Flow) -> Tensor:
        """The series of a module without a state of ours: at once where that is known to be right."""
        if type(module) in _ANY_AXES:
            at_once: Tensor = module(xs)
            return at_once
        axes = _IMAGES.get(type(module))
        if axes is not None:
            return in_one_batch(module, xs, axes)
        outputs = []
        for x in xs.unbind(0):
            if self.units[node].stateful:
                y, flow.states[node] = module(x, flow.states[node])
            else:
                y = module(x)
            outputs.append(y)
        return torch.stack(outputs)


def in_one_batch(module: nn.Module, xs: Tensor, axes: int) -> Tensor:
    """A module that takes one batch axis, on any number of them."""
    batch = xs.shape[: xs.dim() - axes]
    y: Tensor = module(xs.reshape(-1, *xs.shape[xs.dim() - axes :]))
    return y.reshape(*batch, *y.shape[1:])


def summed(values: Sequence[Tensor]) -> Tensor:
    """The sum, in order."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _delayed(module: Delay, xs: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    """The series of a delay, and what it still holds."""
    axis = past.dim() - len(module.shape) - 1
    before = past.movedim(axis, 0).flip(0)
    whole = torch.cat([before.expand(module.longest, *xs.shape[1:]), xs])
    times = torch.arange(xs.shape[0], device=xs.device).reshape(-1, *[1] * (xs.dim() - 1))
    y = whole.gather(0, (times + module.longest - module.steps).expand(xs.shape))
    last = whole[whole.shape[0] - module.longest :]
    return y, last.flip(0).movedim(0, axis)


class _Loop:
    """The nodes of a cycle, stepped together."""

    def __init__(self, stages: Stages, nodes: Sequence[int], flow: Flow) -> None:
        self.flow = flow
        self.nodes = nodes
        inside = set(nodes)
        self.units = stages.units
        self.modules = stages.modules
        self.steps: list[tuple[int, Callable[[Tensor], Tensor]]] = []
        self.outside: dict[int, tuple[Tensor, ...]] = {}
        self.now: dict[int, Tensor] = {}
        self.late = {node: flow.previous[node] for node in nodes if node in flow.previous}
        self.kept_for_next = tuple(self.late)
        self.collected: dict[int, list[Tensor]] = {node: [] for node in nodes}
        self.kept: dict[tuple[int, str], list[Tensor]] = {}
        for node in nodes:
            terms = self.units[node].terms
            values = [flow.series[node]] if node in stages.given else []
            values += [flow.series[term.source] for term in terms if term.source not in inside]
            if values:
                self.outside[node] = summed(values).unbind(0)
            self.steps.append((node, self.stepper(node, self.units[node], stages.modules[node])))
        self.length = next(iter(flow.series.values())).shape[0]

    def stepper(self, node: int, unit: Unit, module: nn.Module | None) -> Callable[[Tensor], Tensor]:
        """A function that takes one step of a node."""
        states = self.flow.states
        if module is None:
            return lambda x: x
        if isinstance(module, Neuron):
            return self.neuron(node, module)
        if isinstance(module, Delay):

            def delay(x: Tensor) -> Tensor:
                y, state = module(x, State(past=states[node]))
                states[node] = state["past"]
                return y  # type: ignore[no-any-return]

            return delay
        if not unit.stateful:
            return module

        def other(x: Tensor) -> Tensor:
            y, states[node] = module(x, states[node])
            return y  # type: ignore[no-any-return]

        return other

    def neuron(self, node: int, module: Neuron) -> Callable[[Tensor], Tensor]:
        (drive, advance), states = module.rule(), self.flow.states
        keep = [
            (module.parts.index(name), self.kept.setdefault((node, name), [])) for name in self.flow.keep.get(node, ())
        ]

        def step(x: Tensor) -> Tensor:
            y, values = advance(drive(x), states[node])
            states[node] = values
            for at, found in keep:
                found.append(values[at])
            return y

        return step

    def run(self) -> None:
        now, late = self.now, self.late
        steps = [
            (node, step, self.outside.get(node), self.terms_of(node), self.collected[node].append)
            for node, step in self.steps
        ]
        lagged = self.lagged()
        for time in range(self.length):
            for node, states, at in lagged:
                late[node] = states[node][at]
            for node, step, outside, terms, collect in steps:
                total = None if outside is None else outside[time]
                for values, source in terms:
                    total = values[source] if total is None else total + values[source]
                if total is None:
                    continue
                now[node] = step(total)
                collect(now[node])
            for node in self.kept_for_next:
                late[node] = now[node]
        for node in self.kept_for_next:
            self.flow.previous[node] = late[node]
        for node, found in self.collected.items():
            self.flow.series[node] = torch.stack(found)
        self.flow.kept.update({key: torch.stack(found) for key, found in self.kept.items()})

    def terms_of(self, node: int) -> list[tuple[dict[int, Tensor], int]]:
        """Where what edges bring from inside the cycle is found: the values of now, or of the step before."""
        return [
            (self.late if term.delayed else self.now, term.source)
            for term in self.units[node].terms
            if term.source in self.collected
        ]

    def lagged(self) -> list[tuple[int, Values, int]]:
        """The neurons whose spikes come out later: a cycle takes them from their state."""
        found = []
        for node in self.nodes:
            module = self.modules[node]
            if self.units[node].lagged and isinstance(module, Neuron):
                found.append((node, self.flow.states, module.parts.index("z")))
        return found
