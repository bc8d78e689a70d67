"""Looking into an unflattened module: its code, its graph, the calls that the program makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import fx, nn

from unflatten.calls.known import KnownCall, Place
from unflatten.code.body import Body
from unflatten.code.graphs import graph_of
from unflatten.modules import DEFINITION, PLACE, Definition, UnflattenedModule
from unflatten.notebooks import shown


class Info:
    """What there is to know of one module of an unflattened tree.

    The same words work as attributes of the module where the model has no child, parameter or buffer of
    that name.
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, UnflattenedModule):
            raise TypeError(f"{type(module).__name__} is not a module that unflatten made")
        self._module = module

    @property
    def _definition(self) -> Definition:
        found: Definition = getattr(type(self._module), DEFINITION)
        return found

    @property
    def _place(self) -> Place:
        found: Place = self._module.__dict__[PLACE]
        return found

    @property
    def type_name(self) -> str:
        """The dotted name of the original's class, empty where the program does not tell."""
        return self._definition.type_name

    @property
    def bodies(self) -> tuple[Body, ...]:
        """What the module computes, one body for each way in which it is called."""
        return self._definition.bodies

    @property
    def code(self) -> str:
        """The Python that runs: `forward`, or one function for each way of calling."""
        return "\n\n".join(code.source.rstrip() for code in self._definition.codes())

    @property
    def calls(self) -> tuple[KnownCall, ...]:
        """The calls that the program makes of the module, with shapes."""
        return self._place.calls

    @property
    def region(self) -> Any:
        """The module's place in the tree of calls: its regions, one for each call."""
        return self._place.regions

    @property
    def graph(self) -> fx.Graph:
        """The first body as an fx graph, made anew each time; nodes carry the metadata of the program's.

        Raises:
            AttributeError: the program never calls the module.
        """
        if not self.bodies:
            raise AttributeError("the program never calls this module, so it has no graph")
        return self.graphs[0]

    @property
    def graphs(self) -> tuple[fx.Graph, ...]:
        """Every body as an fx graph."""
        origins = self._place.origins or ((),) * len(self.bodies)
        return tuple(graph_of(body, known) for body, known in zip(self.bodies, origins, strict=True))

    def print_readable(self) -> str:
        """The code of this module and all modules inside it, each class once."""
        return "\n\n".join(_readable(self._module))

    def _repr_html_(self) -> str | None:
        return shown("html", self._module)

    def _repr_svg_(self) -> str | None:
        return shown("svg", self._module)

    def __repr__(self) -> str:
        calls = "".join(f"\n  {call}" for call in self.calls)
        return f"{self.type_name or 'module'} at {str(self._place.path) or 'the root'}{calls}"


def info(module: nn.Module) -> Info:
    """What there is to know of a module that `unflatten` made.

    Raises:
        TypeError: it is another module.
    """
    return Info(module)


def known_calls(root: nn.Module, path: str) -> tuple[KnownCall, ...]:
    """The calls that the program makes of a module, also of one that is a genuine module of another class.

    Args:
        root: what `unflatten` returned.
        path: the module's name in it.

    Raises:
        TypeError: `root` is another module.
        AttributeError: there is no such module.

    Example:
        >>> import torch
        >>> from unflatten import unflatten
        >>> nested = unflatten(torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 8)), (torch.ones(2, 4),)))
        >>> print(known_calls(nested, "0")[0])
        0: (input=float32[2, 4]) -> float32[2, 8]
    """
    Info(root)  # which refuses what `unflatten` did not make
    return calls_of(root.modules(), root.get_submodule(path))


Children = Mapping[str, nn.Module | None]


def children_of(module: nn.Module) -> Children:
    """What a module holds."""
    return module._modules


def calls_of(
    holders: Iterable[nn.Module], module: nn.Module, children: Callable[[nn.Module], Children] = children_of
) -> tuple[KnownCall, ...]:
    """The calls that a program makes of a module; nothing where none of the holders knows.

    Args:
        holders: modules that may be around it.
        module: the module.
        children: what a module holds, where that is not what it shows.
    """
    if PLACE in module.__dict__:
        own: Place = module.__dict__[PLACE]
        return own.calls
    for holder in holders:
        place: Place | None = holder.__dict__.get(PLACE)
        for path, calls in (place.genuine if place else {}).items():
            if _inside(holder, path, children) is module:
                return calls
    return ()


def all_calls(root: nn.Module) -> dict[nn.Module, tuple[KnownCall, ...]]:
    """The calls that the program makes of each module of a tree, in linear time.

    Args:
        root: what `unflatten` returned.
    """
    found: dict[nn.Module, tuple[KnownCall, ...]] = {}
    for holder in root.modules():
        place: Place | None = holder.__dict__.get(PLACE)
        if place is not None:
            found[holder] = place.calls
            inner = ((_inside(holder, path, children_of), calls) for path, calls in place.genuine.items())
            found.update((module, calls) for module, calls in inner if module is not None)
    return found


def _inside(holder: nn.Module, path: str, children: Callable[[nn.Module], Children]) -> nn.Module | None:
    found: nn.Module | None = holder
    for name in path.split("."):
        found = children(found).get(name) if found is not None else None
    return found


def _readable(module: nn.Module) -> Iterator[str]:
    seen, place = set(), module.__dict__.get(PLACE)
    above = "" if place is None else str(place.path)
    for name, inner in module.named_modules(prefix=above):
        if isinstance(inner, UnflattenedModule) and type(inner) not in seen:
            seen.add(type(inner))
            yield f"# {name or 'root'}: {Info(inner).type_name or 'module'}\n{Info(inner).code}"


OFFERED = ("graph", "code", "calls", "region", "type_name", "print_readable", "_repr_html_", "_repr_svg_")


class _Offer:
    """An attribute that gives what `info` gives, unless the module holds something of that name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, module: UnflattenedModule | None, owner: type | None = None) -> Any:
        if module is None:
            return self
        for table in (module._parameters, module._buffers, module._modules):
            if self.name in table:
                return table[self.name]
        return getattr(Info(module), self.name)


def offered(taken: frozenset[str]) -> dict[str, _Offer]:
    """The attributes that a generated class has for what `info` gives."""
    return {name: _Offer(name) for name in OFFERED if name not in taken}
