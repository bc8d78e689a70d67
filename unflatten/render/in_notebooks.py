"""Pictures in notebooks: a tree of modules that opens and closes, and the graph where it is small."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from unflatten.errors import UnflattenError
from unflatten.modules import PLACE
from unflatten.notebooks import show_with
from unflatten.render.as_svg import dot_command, drawn_by
from unflatten.render.from_module import read_module
from unflatten.render.picture import Cluster, Picture
from unflatten.render.reading import picture, reader_of
from unflatten.render.text import clean, escaped

SMALL = 80
"""How many nodes a graph may have to be drawn without being asked for."""
ROWS = 400
SECONDS = 5.0
_ROW = "margin:0 0 0 1.2em"


def install() -> None:
    """Has notebooks show pictures."""
    show_with("html", html_for)
    show_with("svg", svg_for)


def svg_for(obj: Any) -> str | None:
    """The graph, where it is small and Graphviz is here."""
    drawn = _drawn(obj)
    return _small(drawn) if drawn is not None else None


def html_for(obj: Any) -> str | None:
    """The modules, and the graph where it is small and Graphviz is here."""
    drawn = _drawn(obj)
    if drawn is None:
        return None
    graph = _small(drawn)
    below = f'<div style="overflow:auto;max-height:40em;background:#fff">{graph}</div>' if graph else ""
    return f'<div style="font-family:monospace">{tree(drawn)}</div>{below}'


def _drawn(obj: Any) -> Picture | None:
    if reader_of(obj) is read_module and not obj.__dict__[PLACE].regions:
        return None  # it came out of a pickle: its nodes would have to be traced, which is not done unasked
    try:
        return picture(obj)
    except UnflattenError:
        return None


def _small(drawn: Picture) -> str | None:
    command = dot_command()
    if command is None or len(drawn.nodes) > SMALL:
        return None
    try:
        return _laid_out(command, drawn)
    except UnflattenError:
        return None


@lru_cache(maxsize=8)
def _laid_out(command: str, drawn: Picture) -> str:
    return drawn_by(command, drawn, SECONDS)


def tree(drawn: Picture) -> str:
    """The modules of a picture as HTML that opens and closes, without a script.

    >>> tree(Picture("net", (Cluster(-1, "", type_name="Net"), Cluster(0, "a<b", type_name="Linear")), (), ()))
    '<details open><summary>Net ...a&lt;b: Linear ...</div></details>'
    """
    inside = drawn.inside()
    parts: list[str] = []
    stack: list[tuple[int, int] | None] = [(0, 0)]
    rows = 0
    while stack:
        top = stack.pop()
        if top is None:
            parts.append("</details>")
            continue
        at, depth = top
        rows += 1
        if rows > ROWS:
            continue
        line = _line(drawn.clusters[at])
        margin = f' style="{_ROW}"' if depth else ""
        if inside[at]:
            parts.append(f"<details{margin}{' open' if depth < 2 else ''}><summary>{line}</summary>")
            stack.append(None)
            stack.extend((inner, depth + 1) for inner in reversed(inside[at]))
        else:
            parts.append(f"<div{margin}>{line}</div>")
    if rows > ROWS:
        parts.append(f"<p>and {rows - ROWS:,} more modules</p>")
    return "".join(parts)


def _line(cluster: Cluster) -> str:
    title = clean(cluster.title, 100) or "graph"
    plural = "" if cluster.nodes == 1 else "s"
    return f'{escaped(title)} <span style="opacity:.6">{cluster.nodes:,} node{plural}</span>'
