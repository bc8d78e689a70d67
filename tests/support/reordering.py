"""Valid reorderings of an exported program's graph."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

ORDERS = ["few moves", "late", "early", "random"]


def is_effect(node: fx.Node) -> bool:
    """Whether an operator must keep its place among others of which the same holds."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        off = any(argument is False for argument in node.args[2:])
        random_ = torch.Tag.nondeterministic_seeded in target.tags and not off
        return target._schema.is_mutable or random_ or not target._schema.returns
    return isinstance(target, torch._ops.HigherOrderOperator)


def dependencies(graph: fx.Graph) -> tuple[list[fx.Node], dict[fx.Node, set[fx.Node]]]:
    """The operators, and what must stay before each: its inputs; for writes, all that was before them."""
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    before = {node: {needed for needed in node.all_input_nodes if needed.op != "placeholder"} for node in nodes}
    last_effect, since_write, write = None, [], None
    for node in nodes:
        if write is not None:
            before[node].add(write)
        if is_effect(node):
            if last_effect is not None:
                before[node].add(last_effect)
            last_effect = node
        since_write.append(node)
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            before[node].update(since_write[:-1])
            since_write, write = [], node
    return nodes, before


def reorder(program: ExportedProgram, how: str, draw: random.Random) -> None:
    """Moves the operators of a program into another order in which they compute the same."""
    graph = program.graph
    nodes, before = dependencies(graph)
    level: dict[fx.Node, int] = {}
    for node in nodes:
        level[node] = 1 + max((level[needed] for needed in before[node]), default=-1)
    depth = dict.fromkeys(nodes, 0)
    for node in reversed(nodes):
        for needed in before[node]:
            depth[needed] = max(depth[needed], depth[node] + 1)
    place = {node: at for at, node in enumerate(nodes)}
    keys: dict[str, Callable[[fx.Node], Any]] = {
        "early": lambda node: (level[node], place[node]),
        "late": lambda node: (-depth[node], place[node]),
        "random": lambda node: draw.random(),
        "few moves": lambda node: place[node] + draw.choice([0] * 9 + [20]),
    }
    key = {node: keys[how](node) for node in nodes}
    left, output = list(nodes), next(iter(reversed(graph.nodes)))
    done: set[fx.Node] = set()
    while left:
        ready = [node for node in left if before[node] <= done]
        chosen = min(ready, key=key.__getitem__)
        left.remove(chosen)
        done.add(chosen)
        output.prepend(chosen)
    graph.lint()
    program.graph_module.recompile()
