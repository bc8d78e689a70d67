"""A network doesn't depend on the order of nodes and edges, and files change nothing."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nir
import torch

from nir_bridge import Dynamics
from nir_bridge.files import write
from unflatten.testing.comparing import Difference, differences
from unflatten.testing.nir.comparing import value_differences
from unflatten.testing.nir.failing import check_graph
from unflatten.testing.nir.reordering import rearranged
from unflatten.testing.nir.running import Run, run_graph

STEPS = 4
_ORDERS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "backwards": lambda items: items[::-1],
    "sorted": sorted,
    **{f"shuffled ({seed})": lambda items, seed=seed: _shuffled(items, seed) for seed in range(2)},  # type: ignore[misc]
}


def _shuffled(items: list[Any], seed: int) -> list[Any]:
    return random.Random(seed).sample(items, len(items))  # noqa: S311  # no secret


def assert_nir_order_invariant(
    graph: nir.NIRGraph,
    *,
    dynamics: str | Dynamics | None = None,
    dtype: torch.dtype = torch.float64,
    through_file: bool = True,
) -> None:
    """A graph gives the same network whatever the order of its nodes and edges, and after it was a file.

    Compared are the code, the delayed edges, the state dict and, for a fixed series, outputs and states, bit for bit.

    Args:
        graph: the graph, which is not changed.
        dynamics: as `from_nir` takes them.
        dtype: of the network.
        through_file: whether to write and read it, too.

    Raises:
        DifferenceError: something differs.

    Example:
        >>> import nir, numpy as np
        >>> assert_nir_order_invariant(nir.NIRGraph.from_list(nir.Scale(np.ones(1)), nir.I(np.ones(1))))
    """
    expected = run_graph(graph, dynamics, dtype, STEPS)
    found: list[Difference] = []
    for name, order in _ORDERS.items():
        found += _differences(name, expected, run_graph(rearranged(graph, order), dynamics, dtype, STEPS))
    if through_file:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.nir"
            write(graph, path)
            found += _differences("written and read", expected, run_graph(path, dynamics, dtype, STEPS))
    options = {"dynamics": dynamics, "dtype": dtype, "through_file": through_file}
    check_graph(found, "the order of a graph, or a file, changes the network", "assert_nir_order_invariant", graph,
                **options)  # fmt: skip


def _differences(how: str, expected: Run, given: Run) -> list[Difference]:
    found = differences(expected.net.print_readable(), given.net.print_readable(), "code")
    found += differences(expected.net.delayed_edges, given.net.delayed_edges, "delayed edges")
    found += differences(list(expected.net.state_dict()), list(given.net.state_dict()), "names in the state dict")
    found += value_differences(dict(expected.net.state_dict()), dict(given.net.state_dict()), "state dict")
    found += value_differences(expected.outputs, given.outputs, "output")
    found += value_differences(expected.state, given.state, "state")
    return [replace(item, where=f"{item.where}, {how}") for item in found]
