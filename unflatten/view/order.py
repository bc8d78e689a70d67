"""The order in which a view shows modules. Nothing but what is shown depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from torch import fx
from torch.export import ExportedProgram

from unflatten.flat.program import module_paths
from unflatten.paths import ROOT, ModulePath, by_value

_KEY = "unflatten_module_order"


def ranks(graph: fx.Graph, program: ExportedProgram | None, holders: Iterable[ModulePath]) -> dict[ModulePath, int]:
    """The places of modules in the model, as far as they are known.

    Args:
        graph: the graph; one that was cut out of another knows the order in that.
        program: a program of the model, which tells them all.
        holders: the modules that hold parameters, in the order of these: what a graph alone tells.
    """
    known: dict[ModulePath, None] = dict.fromkeys(module_paths(program) if program is not None else ())
    told = getattr(graph.owning_module, "meta", {}).get(_KEY, ())
    known.update(dict.fromkeys(map(ModulePath, told)))
    for path in holders:
        for size in range(len(path.names) + 1):
            known.setdefault(ModulePath(path.names[:size]))
    return {path: at for at, path in enumerate(known)}


def tell(module: fx.GraphModule, children: Mapping[ModulePath, list[str]]) -> None:
    """Has a graph that was cut out of another know the order of the modules in that."""
    module.meta = {**module.meta, _KEY: tuple(path.names for path in walked(children, {}))}


def in_order(parent: ModulePath, names: Iterable[str], rank: Mapping[ModulePath, int]) -> list[str]:
    """The names of siblings in the model's order.

    Where that is not known of all of them, numbers come first, by value; then those of which it is known; then the
    others by name.
    """
    places = {name: rank.get(parent / name, len(rank)) for name in names}
    if all(place < len(rank) for place in places.values()):
        return sorted(places, key=places.__getitem__)
    return sorted(
        places, key=lambda name: (not name.isdecimal(), 0 if name.isdecimal() else places[name], by_value(name))
    )


def walked(first: Mapping[ModulePath, list[str]], second: Mapping[ModulePath, list[str]]) -> Iterator[ModulePath]:
    """All modules of two trees, each before those inside: in the order of the first, what only the second has last."""
    stack = [ROOT]
    while stack:
        path = stack.pop()
        yield path
        names = dict.fromkeys((*first.get(path, ()), *second.get(path, ())))
        stack.extend(path / name for name in reversed(names))
