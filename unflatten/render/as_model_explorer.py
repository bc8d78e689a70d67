"""Pictures for Google's Model Explorer."""

from __future__ import annotations

import json
from typing import Any

from unflatten.render.picture import Cluster, Node, Picture
from unflatten.render.reading import picture
from unflatten.render.text import clean


def model_explorer(obj: Any, path: str = "") -> str:
    """A graph as a JSON file that Model Explorer opens: `model-explorer file.json`.

    Args:
        obj: what `picture` takes.
        path: the module to write; everything where empty.

    Raises:
        NotDrawableError: it is something that has no graph.
        UnknownPathError: there is no module of that path.

    Example:
        >>> import json, torch
        >>> from unflatten import render
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 8)), (torch.ones(2, 4),))
        >>> graph = json.loads(render.model_explorer(program))["graphs"][0]
        >>> [(node["label"], node["namespace"]) for node in graph["nodes"]]
        [('input', ''), ('linear', '0: Linear'), ('output', '')]
    """
    drawn = picture(obj, path)
    spaces = _namespaces(drawn)
    incoming: list[list[dict[str, str]]] = [[] for _ in drawn.nodes]
    for edge in drawn.edges:
        to = incoming[edge.target]
        to.append({"sourceNodeId": str(edge.source), "sourceNodeOutputId": "0", "targetNodeInputId": str(len(to))})
    nodes = [_node(at, node, spaces[node.cluster], incoming[at]) for at, node in enumerate(drawn.nodes)]
    groups = {
        space: dict(_attributes(cluster))
        for space, cluster in zip(spaces[1:], drawn.clusters[1:], strict=True)
        if cluster.type_name or cluster.details
    }
    title = clean(drawn.title) or "graph"
    graph = {"id": title, "nodes": nodes, "groupNodeAttributes": groups}
    return json.dumps({"label": title, "graphs": [graph]}, separators=(",", ":"))


def _namespaces(drawn: Picture) -> list[str]:
    """Where each cluster is: `layers/0: Block/attn: Attention`, no two the same."""
    found: list[str] = []
    taken: dict[str, int] = {}
    for cluster in drawn.clusters:
        if cluster.parent < 0:
            found.append("")
            continue
        # A slash in a name would be a level of its own.
        name = clean(cluster.title.replace("/", "\u2215"), 100) or "module"
        around = found[cluster.parent]
        space = f"{around}/{name}" if around else name
        taken[space] = taken.get(space, 0) + 1
        found.append(space if taken[space] == 1 else f"{space} #{taken[space]}")
    return found


def _node(at: int, node: Node, space: str, incoming: list[dict[str, str]]) -> dict[str, Any]:
    told = [("name", node.name), ("target", node.target), ("phase", node.phase), ("kind", node.shape.value)]
    attributes = [{"key": clean(key, 200), "value": clean(value)} for key, value in (*told, *node.details) if value]
    outputs = [{"id": "0", "attrs": [{"key": "tensor_shape", "value": clean(node.value)}]}] if node.value else []
    return {
        "id": str(at),
        "label": clean(node.op, 200) or "node",
        "namespace": space,
        "attrs": attributes,
        "incomingEdges": incoming,
        "outputsMetadata": outputs,
    }


def _attributes(cluster: Cluster) -> list[tuple[str, str]]:
    told = [("module", cluster.path), ("class", cluster.type_name), *cluster.details]
    return [(clean(key, 200), clean(value)) for key, value in told if value]
