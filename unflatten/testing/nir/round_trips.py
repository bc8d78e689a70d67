"""Out to NIR and back, and in from NIR and out again, changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nir
import torch
from torch import nn

from nir_bridge import Dynamics, NIRModule, from_nir, to_nir
from unflatten.testing.comparing import Difference
from unflatten.testing.failing import check
from unflatten.testing.nir.comparing import graph_differences, value_differences
from unflatten.testing.nir.failing import check_graph
from unflatten.testing.nir.running import Run, inputs_of, run_net

STEPS = 4


def assert_nir_round_trip(
    graph_or_module: nir.NIRGraph | nn.Module,
    args: tuple[Any, ...] | None = None,
    *,
    dynamics: str | Dynamics | None = None,
    dtype: torch.dtype = torch.float64,
    tolerance: float = 0.0,
) -> None:
    """`to_nir(from_nir(graph))` is the graph, and `from_nir(to_nir(module))` does what the module does.

    A graph is compared up to the order of nodes and edges and the types of numbers; and the network that comes back of
    what went out is compared, too. Of networks, outputs and states over a series are compared.

    Args:
        graph_or_module: a graph; a network of `from_nir`; or a module without state, with `args`.
        args: what to call the module with; its first axis is a batch.
        dynamics: as `from_nir` takes them; of a network or module, they are known.
        dtype: of networks made of a graph.
        tolerance: how far numbers may be apart, relative to the largest.

    Raises:
        DifferenceError: something does not come back.

    Example:
        >>> import nir, numpy as np
        >>> assert_nir_round_trip(nir.NIRGraph.from_list(nir.Affine(np.ones((2, 3)), np.zeros(2)), nir.I(np.ones(2))))
        >>> assert_nir_round_trip(nn.Sequential(nn.Linear(3, 2), nn.Flatten()), (torch.ones(1, 3),), tolerance=1e-6)
    """
    if isinstance(graph_or_module, nn.Module):
        found = _from_module(graph_or_module, args, tolerance)
        check(found, "a module does not come back from NIR", "assert_nir_round_trip",
              graph_or_module=graph_or_module, args=args, tolerance=tolerance)  # fmt: skip
        return
    options: dict[str, Any] = {} if dynamics is None else {"dynamics": dynamics}
    net = from_nir(graph_or_module, dtype=dtype, **options)
    back = to_nir(net)
    found = graph_differences(graph_or_module, back)
    found += _network_differences(run_net(net, STEPS), back, dtype, tolerance)
    options = {"dynamics": dynamics, "dtype": dtype, "tolerance": tolerance}
    check_graph(found, "a graph does not come back", "assert_nir_round_trip", graph_or_module, **options)


def _from_module(module: nn.Module, args: tuple[Any, ...] | None, tolerance: float) -> list[Difference]:
    if isinstance(module, NIRModule):
        plan = module.__dict__["@nir"]
        return _network_differences(run_net(module, STEPS), to_nir(module), plan.dtype, tolerance)
    given = args or ()
    with torch.no_grad():
        expected = module(*given)
        back = from_nir(to_nir(module, args=args), dtype=_dtype(module, given))
        output = back(*given)[0]
    return value_differences(expected, output, "output", tolerance)


def _dtype(module: nn.Module, args: tuple[Any, ...]) -> torch.dtype:
    tensors = [*module.parameters(), *(value for value in args if isinstance(value, torch.Tensor))]
    return next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), torch.float32)


def _network_differences(expected: Run, graph: nir.NIRGraph, dtype: torch.dtype, tolerance: float) -> list[Difference]:
    """What came of a network, and what its graph gives without being told anything."""
    net = from_nir(graph, dtype=dtype)
    with torch.no_grad():
        ys, state = net.run(inputs_of(expected.net, STEPS), layerwise=False)[:2]
    found = value_differences(expected.outputs, ys, "output", tolerance)
    found += value_differences(expected.state, state, "state", tolerance)
    return [replace(item, where=f"{item.where}, of the network that comes back") for item in found]
