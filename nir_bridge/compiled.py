"""Runs over series, and compiled ones: a number of steps at once, over and over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from nir_bridge.stages import Flow, Stages

_LONGEST = 32
_LONGEST_WITH_GRADIENTS = 16
"""How many steps are compiled at once: calls cost less with more, compiling costs more, with a backward pass thrice."""

Step = Callable[[Sequence[Tensor], dict[int, Any], dict[int, Tensor]], Any]


@dataclass(frozen=True)
class Run:
    """A run over a series, from tensors to tensors.

    Attributes:
        stages: what is run.
        inputs: the nodes that series go to.
        nodes: those whose series come out.
        keep: for each node, the parts of its state that come out for every step.
    """

    stages: Stages
    inputs: tuple[int, ...]
    nodes: tuple[int, ...]
    keep: Mapping[int, tuple[str, ...]]

    @property
    def key(self) -> Any:
        """Equal for runs that do the same."""
        modules = tuple(id(module) for module in self.stages.modules)
        return modules, self.nodes, tuple(sorted(self.keep.items())), torch.is_grad_enabled()

    def __call__(self, series: Sequence[Tensor], states: dict[int, Any], previous: dict[int, Tensor]) -> Any:
        """The series of nodes, the new states, the last values that are fed back, and what was kept."""
        flow = Flow(dict(zip(self.inputs, series, strict=True)), dict(states), dict(previous), dict(self.keep))
        self.stages.run(flow)
        return {node: flow.series[node] for node in self.nodes}, flow.states, flow.previous, flow.kept


class Compiled:
    """Compiled runs of a network: chunks of one number of steps, so that other lengths need no other compilation."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        self.made: dict[Any, tuple[int, Step]] = {}

    def chunked(self, run: Run, length: int) -> Step:
        """A function like the run, compiled, for series of any length."""
        made = self.made.get(run.key)
        if made is None:
            size = chunk_size(length)
            if size is None:
                return run
            made = self.made[run.key] = size, torch.compile(_apart(run), **self.options)
        return _repeated(run, *made)


def chunk_size(length: int) -> int | None:
    """How many steps of a series to compile at once: such that few are left over; None where it is too short.

    Example:
        >>> with torch.no_grad():
        ...     [chunk_size(length) for length in (5, 25, 100, 256, 1001)]
        [None, 25, 25, 32, 25]
        >>> chunk_size(256), chunk_size(100)
        (16, 10)
    """
    longest = _LONGEST_WITH_GRADIENTS if torch.is_grad_enabled() else _LONGEST
    sizes = range(longest // 2, min(longest, length) + 1)
    return min(sizes, key=lambda size: (length % size, -size), default=None)


def _apart(run: Run) -> Step:
    """The run as a function with code of its own: torch counts compilations by code, and gives up after some."""
    call: Any = Run.__call__
    return MethodType(FunctionType(call.__code__.replace(), call.__globals__, call.__name__), run)


def _repeated(run: Run, size: int, compiled: Step) -> Step:
    """A compiled run of some steps, as often as it fits; the steps that are left over are run as they are."""

    def call(series: Sequence[Tensor], states: dict[int, Any], previous: dict[int, Tensor]) -> Any:
        parts: list[Any] = []
        length = series[0].shape[0]
        whole = length // size * size
        for start in range(0, whole, size):
            chunk = [values[start : start + size] for values in series]
            found, states, previous, kept = compiled(chunk, states, previous)
            parts.append((found, kept))
        if whole < length:
            found, states, previous, kept = run([values[whole:] for values in series], states, previous)
            parts.append((found, kept))
        joined = [{key: torch.cat([part[at][key] for part in parts]) for key in parts[0][at]} for at in (0, 1)]
        return joined[0], states, previous, joined[1]

    return call
