"""Times views of joint graphs beside torch's own, and edits of them.

    python -m tests.benchmarks.view

A graph of the wanted size is made of copies of one captured graph, under paths of their own. Each size has a process of
its own; times are those of the processor, since others may use the machine.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from torch import fx
from torch._inductor.fx_passes.graph_view import make_graph_view

from tests.support import capturing
from tests.support.trainable import MODELS, Transformer
from unflatten import GraphView

LAYERS = 7
COPIES = (1, 10, 100)
_STACKS = ("nn_module_stack", "fwd_nn_module_stack")


def grown(module: fx.GraphModule, copies: int) -> fx.Graph:
    """A graph that does what another does several times, each time in a part of its own."""
    graph = fx.Graph()
    results: list[fx.Node] = []
    numbers = [node.meta["seq_nr"] for node in module.graph.nodes if "seq_nr" in node.meta]
    for copy in range(copies):
        made: dict[fx.Node, fx.Node] = {}
        for node in module.graph.nodes:
            if node.op == "output":
                results += [made[result] for result in node.all_input_nodes]
                continue
            made[node] = graph.node_copy(node, made.__getitem__)
            made[node].meta = _meta(node, copy, max(numbers) + 1)
    graph.output(tuple(results))
    return graph


def _meta(node: fx.Node, copy: int, step: int) -> dict[str, Any]:
    meta = {key: value for key, value in node.meta.items() if key != "desc"}
    if "seq_nr" in meta:
        meta["seq_nr"] += copy * step
    for key in _STACKS:
        if meta.get(key):
            meta[key] = {
                f"{copy}{name}": (path.replace("L['self']", f"L['self'].part{copy}"), kind)
                for name, (path, kind) in meta[key].items()
            }
    return meta


def seconds(functions: list[Callable[[], Any]], repeats: int = 5) -> list[float]:
    """The median processor time of each function, called in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, own in zip(functions, times, strict=True):
            gc.collect()
            start = time.process_time()
            kept = function()
            own.append(time.process_time() - start)
            del kept
    return [statistics.median(own) for own in times]


def measured(copies: int) -> tuple[int, list[float]]:
    """The size of a graph, and the times for torch's view, for this one, and to see that it is up to date."""
    torch.set_num_threads(1)
    args = MODELS["transformer"]()[1]
    module = capturing.joint(capturing.by_dynamo(Transformer(LAYERS), args), args)
    graph = grown(module, copies)
    view = GraphView(graph)
    _ = view.index
    return len(graph.nodes), seconds(
        [lambda: make_graph_view(graph), lambda: GraphView(graph).index, lambda: view.index]
    )


def main() -> None:
    """Prints the table."""
    print("| nodes | torch: s | view: s | ratio | exponents: torch, view | is it still so: s |")
    print("|---|---|---|---|---|---|")
    before: tuple[int, list[float]] | None = None
    for copies in COPIES:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            size, times = pool.submit(measured, copies).result()
        slopes = ""
        if before is not None:
            growth = math.log(size / before[0])
            pairs = zip(times[:2], before[1][:2], strict=True)
            slopes = ", ".join(f"{math.log(now / then) / growth:.2f}" for now, then in pairs)
        before = size, times
        theirs, ours, check = times
        print(f"| {size} | {theirs:.3f} | {ours:.3f} | {ours / theirs:.2f} | {slopes} | {check:.4f} |", flush=True)


if __name__ == "__main__":
    main()
