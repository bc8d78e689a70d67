"""Pictures as a page of one file, which lays itself out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from unflatten.render.folding import grouped
from unflatten.render.picture import Cluster, Details, Node, Picture
from unflatten.render.reading import picture
from unflatten.render.text import clean, escaped

_PLACE = re.compile("@(title|style|script|css|data|js)@")


def html(obj: Any, path: str = "") -> str:
    """A drawing as a page: one file that asks nothing of any network, to open, search and share.

    Modules open and close; search, and all else, works by keyboard too. Only what is seen is laid out, so that it is
    usable with tens of thousands of nodes. Names of the model are text in it and nothing else: the page runs no other
    code than its own.

    Args:
        obj: what `picture` takes.
        path: the module to draw; everything where empty.

    Raises:
        NotDrawableError: it is something that has no graph.
        UnknownPathError: there is no module of that path.

    Example:
        >>> import torch
        >>> from unflatten import render
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 8)), (torch.ones(2, 4),))
        >>> render.html(program).splitlines()[0]
        '<!doctype html>'
    """
    return page(grouped(picture(obj, path)))


def page(drawn: Picture) -> str:
    """The page of a picture."""
    css, js = _file("page.css"), "\n".join((_file("layout.js"), _file("lines.js"), _file("page.js"), _file("panel.js")))
    parts: Mapping[str, str] = {
        "title": escaped(clean(drawn.title, 200)),
        "style": _hash(css),
        "script": _hash(js),
        "css": css,
        "data": data(drawn),
        "js": js,
    }
    return _PLACE.sub(lambda match: parts[match[1]], _file("page.html"))


@lru_cache
def _file(name: str) -> str:
    return resources.files("unflatten.render").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What lets a browser run a script: this one, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def data(drawn: Picture) -> str:
    """A picture as JSON that may stand in a page. Each text is written once, and referred to by its number."""
    texts: dict[str, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(clean(value), len(texts))

    def told(details: Details) -> list[int]:
        return [text(part) for pair in details for part in pair]

    clusters = [
        [each.parent, *map(text, _words(each)), each.nodes, told(each.details), int(not each.called)]
        for each in drawn.clusters
    ]
    nodes = [
        [text(each.name), text(each.op), each.cluster, *map(text, _texts(each)), told(each.details)]
        for each in drawn.nodes
    ]
    edges = [part for edge in drawn.edges for part in (edge.source, edge.target, int(edge.delayed))]
    found = {"clusters": clusters, "nodes": nodes, "edges": edges, "text": list(texts)}
    written = json.dumps(found, separators=(",", ":"))
    # Nothing in it can end the script element, or begin a comment in it.
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _words(cluster: Cluster) -> tuple[str, ...]:
    return cluster.name, cluster.path, cluster.type_name, cluster.title, cluster.phase


def _texts(node: Node) -> tuple[str, ...]:
    return node.value, node.shape.value, node.phase, node.target
