"""Pictures as text for Graphviz."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from unflatten.render.folding import folded, single
from unflatten.render.picture import Cluster, Edge, Node, Picture, Shape
from unflatten.render.reading import picture
from unflatten.render.text import clean, escaped, middle

_WIDE = 44
_HEAD = """digraph {
  graph [bgcolor="white", compound=true, fontname="Helvetica", fontsize=11, labeljust=l, nodesep=0.22, nslimit=3, \
nslimit1=3, pad=0.1, ranksep=0.32, style=rounded]
  node [color="#5b6673", fontcolor="#17202b", fontname="Helvetica", fontsize=11, height=0.3, margin="0.12,0.05", \
shape=box]
  edge [arrowsize=0.55, color="#7b8794", fontcolor="#5b6673", fontname="Helvetica", fontsize=9]"""
_STYLES: Mapping[str, str] = {
    # Borders differ as well as colours, for those who see no difference between these.
    "forward": 'style="rounded,filled", fillcolor="#e3eefb", color="#2f6db5"',
    "backward": 'style="filled", fillcolor="#fde8d3", color="#b65a10"',
    "recompute": 'style="rounded,filled,dashed", fillcolor="#efe7fa", color="#7447a8"',
}
_PORTS = {
    Shape.INPUT: 'style="rounded,filled", fillcolor="#ffffff"',
    Shape.OUTPUT: 'style="rounded,filled", fillcolor="#ffffff", penwidth=2',
}
_SURFACE = ("#ffffff", "#f5f7f9")
_SMALL = "#5b6673"
Tip = Callable[[str], str]


def dot(obj: Any, path: str = "", *, limit: int | None = None) -> str:
    """A drawing as text for Graphviz: a cluster for each call of a module, and a box for each node.

    Modules that would make it more than about `limit` boxes are single boxes.

    Args:
        obj: what `picture` takes.
        path: the module to draw; everything where empty.
        limit: how many boxes there may be; 400 if not given, 200 of a larger graph with forward and backward.

    Raises:
        NotDrawableError: it is something that has no graph.
        UnknownPathError: there is no module of that path.

    Example:
        >>> import torch
        >>> from unflatten import render
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 8)), (torch.ones(2, 4),))
        >>> "<B>0: Linear</B>" in render.dot(program)
        True
    """
    return dot_text(folded(picture(obj, path), limit))


def dot_text(drawn: Picture, *, tips: bool = True) -> str:
    """A picture as text for Graphviz, all of it open; with `tips`, details show where the mouse is."""
    return "\n".join(_lines(drawn, _tooltip if tips else _none))


def tip_of(thing: Node | Cluster) -> str:
    """What to show of a box or frame where the mouse is."""
    if isinstance(thing, Node):
        return clean(f"{thing.name}: {thing.target or thing.shape.value} {thing.value}".strip(), 300)
    return clean(f"{thing.path or thing.name} {thing.type_name}: {thing.nodes} nodes".strip(), 300)


def _lines(drawn: Picture, tip: Tip) -> Iterator[str]:
    alone = set(single(drawn))
    own, inside = drawn.own(), drawn.inside()
    yield _HEAD
    stack: list[tuple[int, int]] = [(0, 1)]
    while stack:
        at, depth = stack.pop()
        margin = "  " * depth
        if at < 0:
            yield f"{margin}}}"
            continue
        cluster = drawn.clusters[at]
        framed = at not in alone and (at > 0 or bool(cluster.path or cluster.type_name))
        if framed:
            yield f"{margin}subgraph cluster_{at} {{"
            yield f"{margin}  {_frame(cluster, depth, tip)}"
            stack.append((-1, depth))
        holder = cluster if at in alone else None
        for node in own[at]:
            yield f"{margin}  n{node} [{_box(drawn.nodes[node], holder, tip)}]"
        stack.extend((inner, depth + 1) for inner in reversed(inside[at]))
    for edge in drawn.edges:
        yield f"  n{edge.source} -> n{edge.target}{_edge(drawn, edge)}"
    yield "}\n"


def _frame(cluster: Cluster, depth: int, tip: Tip) -> str:
    fill = _SURFACE[depth % 2]
    style = ", ".join(
        filter(
            None, [f'label=<{_title(cluster.title) or " "}>, bgcolor="{fill}", color="#c3cad3"', tip(tip_of(cluster))]
        )
    )
    return f"graph [{style}]"


def _title(title: str) -> str:
    # One piece of text: viewers have other fonts than Graphviz, and pieces would not meet.
    return f"<B>{escaped(middle(title, _WIDE))}</B>" if title.strip() else ""


def _box(node: Node, holder: Cluster | None, tip: Tip) -> str:
    """A box; the only node of a module has the name of that above it."""
    if holder is not None:
        lines = [_title(holder.title), _small(node.label)]
    elif node.shape in _PORTS:
        lines = [escaped(middle(node.op, _WIDE)), _small(node.value)]
    else:
        lines = [_title(node.op), _small(node.value)]
    style = _PORTS.get(node.shape) or _STYLES.get(node.phase, _STYLES["forward"])
    folded_up = ", peripheries=2" if node.shape is Shape.MODULE else ""
    text = tip(tip_of(node))
    return f"label=<{'<BR/>'.join(filter(None, lines)) or ' '}>, {style}{folded_up}{', ' if text else ''}{text}"


def _small(text: str) -> str:
    text = middle(text, _WIDE)
    return f'<FONT POINT-SIZE="9" COLOR="{_SMALL}">{escaped(text)}</FONT>' if text.strip() else ""


def _edge(drawn: Picture, edge: Edge) -> str:
    if edge.delayed:
        return ' [style=dashed, constraint=false, label="step before"]'
    ends = (drawn.nodes[edge.source], drawn.nodes[edge.target])
    saved = ends[0].phase != ends[1].phase and not any(end.shape in _PORTS for end in ends)
    return ' [color="#c3cad3"]' if saved else ""


def _none(_: str) -> str:
    return ""


def _tooltip(text: str) -> str:
    # Graphviz reads entities and escapes in any string.
    safe = escaped(text).replace("\\", "\\\\")
    return f'tooltip="{safe}"'
