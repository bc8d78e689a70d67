"""Pictures of anything that can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from unflatten.errors import NotDrawableError
from unflatten.modules import UnflattenedModule
from unflatten.render.from_module import read_module
from unflatten.render.from_view import read_part, read_view
from unflatten.render.picture import Picture
from unflatten.view.region import Part, Regions
from unflatten.view.view import GraphView

Reader = Callable[[Any, str], Picture]


def _read_graph(graph: Any, path: str) -> Picture:
    return read_view(GraphView(graph), path)


def _same(picture: Picture, path: str) -> Picture:
    if path:
        raise NotDrawableError(f"a picture has no module {path!r} of its own: draw what it was made from at that path")
    return picture


_readers: dict[type, Reader] = {
    ExportedProgram: _read_graph,
    fx.Graph: _read_graph,
    fx.GraphModule: _read_graph,
    GraphView: read_view,
    Part: read_part,
    Picture: _same,
    Regions: read_part,
    UnflattenedModule: read_module,
}


def register(kind: type, reader: Reader) -> None:
    """Lets objects of a class, and of those derived from it, be drawn.

    Args:
        kind: the class.
        reader: makes the picture of an object, or of what is at a path in it; an empty path is all of it.
    """
    _readers[kind] = reader


def reader_of(obj: object) -> Reader | None:
    """What makes the picture of an object, None where nothing does."""
    return next((_readers[kind] for kind in type(obj).__mro__ if kind in _readers), None)


def picture(obj: Any, path: str = "") -> Picture:
    """What a drawing of something shows, as plain values.

    Args:
        obj: an unflattened module, an exported program, an fx graph or the module that holds it, a `GraphView` or a
            part of one, a module that `nir_bridge` made, or a picture.
        path: the module to draw; everything where empty.

    Raises:
        NotDrawableError: it is something else.
        UnknownPathError: there is no module of that path.

    Example:
        >>> import torch
        >>> from unflatten import render
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 8)), (torch.ones(2, 4),))
        >>> found = render.picture(program)
        >>> [node.label for node in found.nodes]
        ['input 2x4 f32', 'linear 2x8 f32', 'output 2x8 f32']
        >>> [cluster.title for cluster in found.clusters]
        ['Sequential', '0: Linear']
    """
    reader = reader_of(obj)
    if reader is not None:
        return reader(obj, path)
    raise NotDrawableError(
        f"can't draw a {type(obj).__name__}: give an unflattened module, an ExportedProgram, a torch.fx graph or "
        "GraphModule, a GraphView or a region of one. A plain module has no graph yet: unflatten.unflatten("
        "unflatten.export(module, args))"
    )
