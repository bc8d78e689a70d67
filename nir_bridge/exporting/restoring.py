"""Networks that `from_nir` made, back as the graphs that they were, with the values of now."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import nir
import numpy as np
from torch import nn

from nir_bridge.errors import NoMeaningError
from nir_bridge.exporting.copying import copied
from nir_bridge.exporting.recipes import Recipe, Site
from nir_bridge.module import PLAN, NIRModule, child_at
from nir_bridge.plan import Plan
from nir_bridge.sketch import Level, Sketch, Template

RecipeOf = Callable[[nn.Module, str], "Recipe | str | None"]


def sketch_of(module: nn.Module) -> Sketch | None:
    """The sketch that a network was made from; None where it is no network, or only a part of one."""
    plan: Plan | None = module.__dict__.get(PLAN) if isinstance(module, NIRModule) else None
    return None if plan is None else plan.sketch


def keeps_values(network: nn.Module) -> bool:
    """Whether a network keeps anything from one step to the next."""
    plan: Plan = network.__dict__[PLAN]
    return bool(plan.parts or plan.feedback)


def restored(module: nn.Module, sketch: Sketch, recipe_of: RecipeOf) -> nir.NIRGraph:
    """The graph of a network.

    Args:
        module: the network.
        sketch: what it was made from.
        recipe_of: what a module inside it is, by the module and its path.

    Raises:
        NoMeaningError: a module of it can't be written.
    """
    graphs: dict[Any, nir.NIRGraph] = {}
    shared: dict[int, nir.NIRNode] = {}
    made: dict[int, nir.NIRGraph] = {}
    for level in sketch.levels:
        if level.same not in made:
            made[level.same] = _graph(module, level, graphs, shared, recipe_of)
        graphs[level.path] = made[level.same]
    return graphs[()]


def _graph(
    module: nn.Module,
    level: Level,
    graphs: Mapping[Any, nir.NIRGraph],
    shared: dict[int, nir.NIRNode],
    recipe_of: RecipeOf,
) -> nir.NIRGraph:
    nodes: dict[str, nir.NIRNode] = {}
    edges = list(level.edges)
    for name, held in level.nodes:
        if not isinstance(held, Template):
            nodes[name] = graphs[held]
            continue
        node = shared.get(held.same) or _node(module, held, recipe_of)
        if node is None:
            edges = _around(edges, name)
            continue
        shared[held.same] = nodes[name] = node
    return nir.NIRGraph(nodes, edges, copy.deepcopy(dict(level.metadata)), type_check=False)


def _around(edges: list[tuple[str, str]], name: str) -> list[tuple[str, str]]:
    """The edges without a node: what leads into it leads to what it leads to."""
    sources = [source for source, target in edges if target == name != source]
    found = []
    for source, target in edges:
        if source == name and target != name:
            found += [(before, target) for before in sources]
        elif name not in (source, target):
            found.append((source, target))
    return found


def _node(module: nn.Module, template: Template, recipe_of: RecipeOf) -> nir.NIRNode | None:
    """A node with the values that its module has now; None where it is left out."""
    if template.path is None:
        return _filled(template, {})
    held = child_at(module, template.path)
    path = ".".join(template.path)
    where = f"module {path!r} ({type(held).__name__})"
    recipe = recipe_of(held, path)
    if isinstance(recipe, str):
        return None
    if recipe is None:
        raise NoMeaningError(
            f"{where}: it stands for a {template.kind.__name__}, but what it means in NIR is not known. Map it: "
            f"to_nir(model, {{{type(held).__name__}: lambda module: nir.{template.kind.__name__}(...)}})"
        )
    node = copied(recipe.node(Site(where, None, None)))
    return _filled(template, vars(node)) if type(node) is template.kind else node


def _filled(template: Template, now: Mapping[str, Any]) -> nir.NIRNode:
    """A node of a template's type: its own fields where they still mean the same, else those of now."""
    made = object.__new__(template.kind)
    for item in fields(template.kind):
        name = item.name
        if name in template.types:
            held = np.asarray(now[name])
            wanted = template.types[name]
            value: Any = held.astype(wanted) if wanted.kind == "f" and wanted.itemsize >= held.itemsize else held
        else:
            value = copy.deepcopy(template.values[name])
            if _changed(template, name, value, now.get(name)):
                value = now[name]
        setattr(made, name, value)
    return made


def _changed(template: Template, name: str, before: Any, now: Any) -> bool:
    """Whether a setting of a module is no longer what the node said."""
    if now is None or name in ("input_type", "output_type", "metadata", "input_shape"):
        return False
    if template.kind is nir.Flatten:  # modules count axes from the end
        return False
    if before is None:
        return bool(name == "bias" and np.any(now))
    if isinstance(before, str | bytes) or isinstance(now, str):
        return str(before) != str(now)
    return bool(np.any(np.asarray(before) != np.asarray(now)))
