"""Running the graph of a module node by node, on values made up from the shapes that it tells."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx


def inputs_of(module: fx.GraphModule) -> list[Tensor]:
    """Real values for the placeholders of a graph, always the same."""
    torch.manual_seed(0)
    found = []
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta["val"]
        small = torch.randint(0, 3, value.shape, dtype=value.dtype) if not value.is_floating_point() else None
        found.append(torch.rand(value.shape, dtype=value.dtype) + 0.1 if small is None else small)
    return found


def values_of(module: fx.GraphModule) -> dict[fx.Node, Any]:
    """What every node of a graph computes; the output's is the result."""
    runner = fx.Interpreter(module, garbage_collect_values=False)
    runner.run(*inputs_of(module), enable_io_processing=False)
    return runner.env


def results_of(module: fx.GraphModule) -> Any:
    """What a graph gives."""
    return fx.Interpreter(module).run(*inputs_of(module), enable_io_processing=False)
