"""A NIR graph as Python code that makes it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import nir
import numpy as np


def graph_code(graph: nir.NIRNode, name: str = "graph") -> str:
    """Statements that make a graph; one object under several names is one variable.

    Args:
        graph: a graph, or another node.
        name: the variable that holds it at the end.

    Example:
        >>> import nir, numpy as np
        >>> print(graph_code(nir.NIRGraph.from_list(nir.Scale(np.ones(1)))))
        graph = nir.NIRGraph(
            {'input': nir.Input({'input': np.array([1])}), 'scale': nir.Scale(scale=np.array([1.0])), 'output':
            nir.Output({'output': np.array([1])})}, [('input', 'scale'), ('scale', 'output')], type_check=False
        )
    """
    writer = _Writer()
    writer.count(graph)
    text = writer.node(graph, top=True)
    return "\n".join([*writer.lines, f"{name} = {text}"])


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.uses: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.held: list[nir.NIRNode] = []

    def count(self, node: nir.NIRNode) -> None:
        self.uses[id(node)] = self.uses.get(id(node), 0) + 1
        if isinstance(node, nir.NIRGraph) and self.uses[id(node)] == 1:
            for inner in node.nodes.values():
                self.count(inner)

    def node(self, node: nir.NIRNode, *, top: bool = False) -> str:
        """An expression for a node."""
        if id(node) in self.names:
            return self.names[id(node)]
        text = self.graph(node) if isinstance(node, nir.NIRGraph) else self.single(node)
        if top or self.uses.get(id(node), 1) == 1:
            return text
        name = self.names[id(node)] = f"shared_{len(self.names)}"
        self.lines.append(f"{name} = {text}")
        return name

    def graph(self, graph: nir.NIRGraph) -> str:
        nodes = ", ".join(f"{name!r}: {self.node(node)}" for name, node in graph.nodes.items())
        held = getattr(graph, "metadata", None)
        metadata = f", {value(held)}" if held else ""
        return f"nir.NIRGraph(\n    {{{nodes}}}, {list(graph.edges)!r}{metadata}, type_check=False\n)"

    def single(self, node: nir.NIRNode) -> str:
        kind = f"nir.{type(node).__name__}"
        if isinstance(node, nir.Input):
            return f"{kind}({value(getattr(node, 'input_type', None))})"
        if isinstance(node, nir.Output):
            return f"{kind}({value(getattr(node, 'output_type', None))})"
        given = {item.name: getattr(node, item.name, None) for item in fields(node) if item.init}
        if isinstance(node, nir.Flatten):
            given["input_type"] = getattr(node, "input_type", None)
        if not given.get("metadata"):
            given.pop("metadata", None)
        return f"{kind}({', '.join(f'{name}={value(held)}' for name, held in given.items())})"


def value(given: Any) -> str:
    """An expression for what a field holds."""
    if isinstance(given, np.ndarray | np.generic):
        array = np.asarray(given)
        plain = array.dtype in (np.float64, np.int64)
        kind = "" if plain and array.size else f", dtype={array.dtype.str!r}"
        return f"np.array({array.tolist()!r}{kind})" if array.size else f"np.zeros({array.shape}{kind})"
    if isinstance(given, Mapping):
        return "{" + ", ".join(f"{key!r}: {value(held)}" for key, held in given.items()) + "}"
    if isinstance(given, tuple):
        return "(" + "".join(f"{value(held)}, " for held in given) + ")"
    return repr(given)
