"""Pictures as SVG, laid out by Graphviz."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

from unflatten.errors import DrawingError, MissingToolError
from unflatten.render.as_dot import dot_text, tip_of
from unflatten.render.folding import folded
from unflatten.render.picture import Picture
from unflatten.render.reading import picture
from unflatten.render.text import clean, escaped

SECONDS = 60
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_TITLE = re.compile(r"<title>(?:(n|cluster_)(\d+)|n(\d+)&#45;&gt;n(\d+)|[^<]*)</title>")
_NODE = re.compile(r'<g id="[^"]*" class="node">.*?</g>', re.DOTALL)
_OUTLINE = re.compile(r' (?:d|points)="([^"]*)"')
_X = re.compile(r"(-?[\d.]+),-?[\d.]+")
_LEFT = re.compile(r'text-anchor="start" x="[^"]*"')


def svg(obj: Any, path: str = "", *, limit: int | None = None) -> str:
    """A drawing as SVG: a frame for each call of a module, a box for each node; details show where the mouse is.

    Modules that would make it more than about `limit` boxes are single boxes. Graphviz lays it out, which has to be
    installed. Takes about a second for 400 boxes.

    Args:
        obj: what `picture` takes.
        path: the module to draw; everything where empty.
        limit: how many boxes there may be; 400 if not given, 200 of a larger graph with forward and backward.

    Raises:
        MissingToolError: there is no `dot`.
        DrawingError: Graphviz can't draw it, or not in a minute.
        NotDrawableError: it is something that has no graph.
        UnknownPathError: there is no module of that path.
    """
    command = dot_command()
    if command is None:
        raise MissingToolError(
            "an SVG is laid out by Graphviz, and there is no `dot` command here. Install it: `apt install graphviz`, "
            "`brew install graphviz`, `conda install graphviz` or https://graphviz.org/download. Without it, "
            "unflatten.render.html(...) makes a page that lays itself out, unflatten.render.dot(...) the text for `dot`"
        )
    return drawn_by(command, folded(picture(obj, path), limit))


def dot_command() -> str | None:
    """Where Graphviz' `dot` is, None where it is not installed."""
    return shutil.which("dot")


def drawn_by(command: str, drawn: Picture, seconds: float = SECONDS) -> str:
    """A picture laid out by `dot`, all of it open."""
    text = dot_text(drawn, tips=False).encode()
    try:
        # A fixed command without a shell; names are in the text only, escaped.
        done = subprocess.run([command, "-Tsvg"], input=text, capture_output=True, timeout=seconds, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise DrawingError(
            f"Graphviz has not laid out {len(drawn.nodes)} boxes and {len(drawn.edges)} edges in {seconds:g} s. Draw "
            "one module (path='...'), fewer boxes (limit=100), or a page that lays itself out: unflatten.render.html"
        ) from None
    except OSError as error:
        raise MissingToolError(f"can't run {command}: {error}. Install Graphviz anew") from error
    if done.returncode:
        raise DrawingError(f"Graphviz can't draw this: {done.stderr.decode(errors='replace').strip()[:1000]}")
    found = done.stdout.decode()
    found = _COMMENT.sub("", found[found.index("<svg") :])
    return _TITLE.sub(lambda match: _titled(drawn, match), _NODE.sub(_centred, found))


def _centred(node: re.Match[str]) -> str:
    """A box whose text is in its middle with whatever font: Graphviz places the left end for the font that it has."""
    outline = _OUTLINE.search(node[0])
    ends = [float(x) for x in _X.findall(outline[1])] if outline else []
    if not ends:
        return node[0]
    return _LEFT.sub(f'text-anchor="middle" x="{(min(ends) + max(ends)) / 2:.2f}"', node[0])


def _titled(drawn: Picture, match: re.Match[str]) -> str:
    """What a browser shows where the mouse is, in place of a number."""
    kind, number, source, target = match.groups()
    if kind is not None:
        text = tip_of((drawn.nodes if kind == "n" else drawn.clusters)[int(number)])
    elif source is not None:
        text = f"{drawn.nodes[int(source)].name} \u2192 {drawn.nodes[int(target)].name}"
    else:
        text = drawn.title
    return f"<title>{escaped(clean(text, 300))}</title>"
