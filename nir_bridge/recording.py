"""What `run` records: outputs of modules, and parts of their states, by path."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.errors import RecordError
from nir_bridge.flattening import Path
from nir_bridge.plan import Network, Plan
from nir_bridge.state import State, at_path


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something to record.

    Attributes:
        node: the node.
        part: of its state; None for its output.
    """

    node: int
    part: str | None


def wanted(plan: Plan, record: tuple[str, ...]) -> Mapping[str, Wanted]:
    """What names mean: paths of modules or names of nodes, `:v` and the like behind them.

    Raises:
        RecordError: there is no such node.
    """
    if not record:
        return {}
    if plan.network is None:
        raise RecordError("only the whole network records; call run on it")
    known: dict[str, int] = {}
    for node, unit in enumerate(plan.network.units):
        if unit.silent is None:
            known.setdefault(".".join(unit.path), node)
            known.setdefault(unit.label, node)
    return {name: _wanted(plan.network, known, name) for name in record}


def _wanted(network: Network, known: Mapping[str, int], name: str) -> Wanted:
    if name in known:
        return Wanted(behind(network, known[name]), None)
    path, _, part = name.rpartition(":")
    if path in known and network.units[known[path]].stateful:
        return Wanted(known[path], part)
    near = difflib.get_close_matches(name, known, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    if path in known:
        hint = f" {path!r} has no state."
    raise RecordError(f"there is nothing called {name!r} to record; there are {', '.join(sorted(known)[:12])}.{hint}")


def behind(network: Network, node: int) -> int:
    """The node whose value a port hands on."""
    seen: set[int] = set()
    while node not in seen and not network.units[node].has_module and len(network.units[node].terms) == 1:
        seen.add(node)
        term = network.units[node].terms[0]
        if term.delayed or network.units[term.source].silent is not None:
            break
        node = term.source
    return node


class Recorder:
    """Collects what is wanted while a network is stepped."""

    def __init__(self, network: Network | None, asked: Mapping[str, Wanted]) -> None:
        self.network = network
        self.asked = asked
        self.found: dict[str, list[Tensor]] = {name: [] for name in asked}
        self.seen: dict[int, list[Tensor]] = {}
        self.places: Mapping[int, tuple[int, int]] = {}

    def see(self, module: nn.Module, output: Any) -> None:
        """Notes what a module returned."""
        self.seen.setdefault(id(module), []).append(output[0] if isinstance(output, tuple) else output)

    def step(self, state: State | None) -> None:
        """Takes what is wanted of the step that has been made."""
        for name, want in self.asked.items():
            if want.part is not None and state is not None and self.network is not None:
                path: Path = self.network.units[want.node].path
                self.found[name].append(at_path(state, (*path, want.part)))
            elif want.part is None:
                key, at = self.places[want.node]
                self.found[name].append(self.seen[key][at])
        self.seen.clear()

    def series(self) -> dict[str, Tensor]:
        """What was collected."""
        return {name: torch.stack(found) for name, found in self.found.items()}


@contextmanager
def stepped_record(module: nn.Module, plan: Plan, asked: Mapping[str, Wanted]) -> Iterator[Recorder]:
    """A recorder that listens to the modules that are wanted.

    Raises:
        RecordError: a wanted node has no module to listen to.
    """
    recorder = Recorder(plan.network, asked)
    handles = []
    if plan.network is not None and asked:
        recorder.places, modules = _places(module, plan.network, asked)
        handles = [
            inner.register_forward_hook(lambda inner, _, output: recorder.see(inner, output)) for inner in modules
        ]
    try:
        yield recorder
    finally:
        for handle in handles:
            handle.remove()


def _places(
    module: nn.Module, network: Network, asked: Mapping[str, Wanted]
) -> tuple[dict[int, tuple[int, int]], list[nn.Module]]:
    """For each wanted node, its module and which of the module's calls in a step is its own."""
    counts: dict[int, int] = {}
    places: dict[int, tuple[int, int]] = {}
    at: dict[int, nn.Module] = {}
    for node in network.calls:
        found: Any = module
        for name in network.units[node].path:
            found = found._modules[name]
        places[node] = (id(found), counts.get(id(found), 0))
        counts[id(found)] = places[node][1] + 1
        at[node] = found
    nodes = [want.node for want in asked.values() if want.part is None]
    missing = [network.units[node].label for node in nodes if node not in places]
    if missing:
        raise RecordError(
            f"{missing[0]!r} adds values up and has no module, so stepping can't record it; run layerwise"
        )
    return places, list({id(at[node]): at[node] for node in nodes}.values())
