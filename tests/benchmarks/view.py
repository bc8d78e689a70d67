"""Times views of joint graphs beside torch's own, and edits of them.

    python -m tests.benchmarks.view

A graph of the wanted size is made of copies of one captured graph, under paths of their own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx
from torch._inductor.fx_passes.graph_view import make_graph_view

from tests.benchmarks.__main__ import seconds
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


def main() -> None:
    """Prints the table."""
    args = MODELS["transformer"]()[1]
    module = capturing.joint(capturing.by_dynamo(Transformer(LAYERS), args), args)
    print("| nodes | torch: s | view: s | ratio | exponent since the first | is it still so: s |")
    print("|---|---|---|---|---|---|")
    first: tuple[int, float] | None = None
    for copies in COPIES:
        graph = grown(module, copies)
        view = GraphView(graph)
        _ = view.index
        theirs, ours, check = seconds(
            [lambda g=graph: make_graph_view(g), lambda g=graph: GraphView(g).index, lambda v=view: v.index]  # type: ignore[misc]
        )
        size = len(graph.nodes)
        slope = "" if first is None else f"{math.log(ours / first[1]) / math.log(size / first[0]):.2f}"
        first = first or (size, ours)
        print(f"| {size} | {theirs:.3f} | {ours:.3f} | {ours / theirs:.2f} | {slope} | {check:.4f} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
