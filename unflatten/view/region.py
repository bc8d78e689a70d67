"""A part of a graph: a module, one call of it, one phase of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, overload

from torch import fx

from unflatten.errors import EmptySelectionError, UnknownPathError
from unflatten.paths import ROOT, ModulePath
from unflatten.view.bucketing import bucket
from unflatten.view.costs import Cost, Table, node_costs, table, total
from unflatten.view.extracting import extract, replace
from unflatten.view.index import Index
from unflatten.view.moving import after, before
from unflatten.view.ports import Convexity, Port, convexity_of, inputs_of, outputs_of
from unflatten.view.selecting import is_pattern, matching, numbered, spelled, unknown
from unflatten.view.showing import tree
from unflatten.view.values import Phase


class Viewer(Protocol):
    """What a part needs of its view."""

    @property
    def index(self) -> Index:
        """What is known of the graph as it now is."""

    @property
    def graph(self) -> fx.Graph:
        """The graph."""

    @property
    def module(self) -> fx.GraphModule:
        """The module that holds the graph."""


class Part:
    """Some nodes of a graph. It holds no nodes itself and asks the view each time, so that it is never out of date.

    A part is a set of nodes that compute something: inputs, parameters and outputs of the graph are not in it.
    """

    def __init__(self, view: Viewer) -> None:
        self._view = view

    def _find(self, index: Index) -> list[fx.Node]:
        raise NotImplementedError

    @property
    def nodes(self) -> tuple[fx.Node, ...]:
        """All nodes, those of modules inside included, in the graph's order."""
        return tuple(self._find(self._view.index))

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What the nodes take from outside, each with what it is."""
        index = self._view.index
        return inputs_of(index, self._find(index))

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What of the nodes is used outside, each with what it is: result, saved for backward, gradient, mutation."""
        index = self._view.index
        return outputs_of(index, self._find(index))

    @property
    def convexity(self) -> Convexity:
        """Whether no path leaves the nodes and comes back; names the path if one does."""
        index = self._view.index
        return convexity_of(index, self._find(index))

    def cost(self) -> Cost:
        """Floating point operations and bytes, from the shapes in the graph.

        Parameters count where the part is a region of a module.
        """
        index = self._view.index
        return total(node_costs(index), [*self._find(index), *self._state(index).values()])

    def _state(self, _index: Index) -> Mapping[str, fx.Node]:
        return {}

    def extract(self) -> fx.GraphModule:
        """A fresh module of just these nodes, which runs alone.

        Its inputs and outputs have the names of the nodes; it returns a dict. The graph stays as it is.
        """
        index = self._view.index
        return extract(index, self._view.module, self._find(index))

    def replace(self, target: Callable[..., Any]) -> fx.Node:
        """Puts a call of a function or module in the place of the nodes.

        It is given what the nodes take (`inputs`, in that order), and gives what is used of them (`outputs`): one
        value, or a tuple.

        Raises:
            IllegalMoveError: something has to run between the nodes; nothing is changed.
        """
        index = self._view.index
        return replace(index, self._view.module, self._find(index), target, self._label)

    def outline(self) -> fx.Node:
        """Makes the nodes a module of their own, which the graph calls; `GraphView.inline` takes it back.

        Raises:
            IllegalMoveError: something has to run between the nodes; nothing is changed.
        """
        index, module = self._view.index, self._view.module
        nodes = self._find(index)
        return replace(index, module, nodes, extract(index, module, nodes, named=False), self._label)

    def hoist(self, nodes: Iterable[fx.Node], *, reorder_collectives: bool = False) -> list[fx.Node]:
        """Moves nodes to the start of this part, with what they need; gives what was moved.

        With `reorder_collectives`, collectives may start in another order than now. Then the same has to be done on
        all ranks.

        Raises:
            IllegalMoveError: they need something that this part computes; nothing is changed.
        """
        index = self._view.index
        own = self._some(index)
        return self._moved(before(index, list(nodes), own[0], own, collectives=not reorder_collectives))

    def sink(self, nodes: Iterable[fx.Node], *, reorder_collectives: bool = False) -> list[fx.Node]:
        """Moves nodes to the end of this part, with what needs them; gives what was moved.

        With `reorder_collectives`, collectives may start in another order than now. Then the same has to be done on
        all ranks.

        Raises:
            IllegalMoveError: this part needs one of them; nothing is changed.
        """
        index = self._view.index
        own = self._some(index)
        return self._moved(after(index, list(nodes), own[-1], own, collectives=not reorder_collectives))

    def bucket(self, op: str | None = None) -> list[fx.Node]:
        """Makes one collective of all equal ones of this part, on flattened tensors; gives the new ones.

        Collectives are equal if operator, group, reduction, type, device and phase are. The same has to be done on all
        ranks, since collectives start in another order than before.

        Args:
            op: `"all_gather_into_tensor"`, `"reduce_scatter_tensor"` or `"all_reduce"`; all three where None.

        Raises:
            EmptySelectionError: there is none.
            IllegalMoveError: one needs the result of another; nothing is changed.
        """
        index = self._view.index
        return bucket(index, self._view.module, [self._find(index)], op)

    def _some(self, index: Index) -> list[fx.Node]:
        nodes = self._find(index)
        if not nodes:
            raise EmptySelectionError(f"{self._label or 'this part'} has no nodes, so it has no start and no end")
        return nodes

    def _moved(self, nodes: list[fx.Node]) -> list[fx.Node]:
        if isinstance(self._view.graph.owning_module, fx.GraphModule):
            self._view.module.recompile()
        return nodes

    @property
    def _label(self) -> str:
        return ""

    def __contains__(self, node: object) -> bool:
        """Whether a node is one of these."""
        return node in self.nodes

    def __bool__(self) -> bool:
        return True


class Region(Part):
    """A module of a graph, or one of its calls, in all phases or one.

    `region["attn"]`, `region[0]`, `region[0:2]` and `region.attn` lead to modules inside.

    Attributes:
        path: the module's path.
        call: the number of the call that is meant, None for all.
        phase: the phase that is meant, None for all.
    """

    def __init__(self, view: Viewer, path: ModulePath, call: int | None = None, phase: Phase | None = None) -> None:
        super().__init__(view)
        self.path, self.call, self.phase = path, call, phase

    def _find(self, index: Index) -> list[fx.Node]:
        self._check(index)
        return index.work(self.path, self.call, self.phase)

    def _check(self, index: Index) -> None:
        if self.path not in index.children:
            raise unknown(str(self.path), map(str, index.children))
        if self.call is not None and self.call not in index.calls.get(self.path, ()):
            raise UnknownPathError(f"{self._spelled} has no call {self.call}: the graph changed since it was asked for")

    @property
    def _spelled(self) -> str:
        return repr(str(self.path)) if self.path != ROOT else "the root"

    @property
    def own_nodes(self) -> tuple[fx.Node, ...]:
        """The nodes that belong to no module inside."""
        index = self._view.index
        self._check(index)
        return tuple(index.work(self.path, self.call, self.phase, own=True))

    @property
    def forward(self) -> Region:
        """The forward nodes."""
        return Region(self._view, self.path, self.call, Phase.FORWARD)

    @property
    def backward(self) -> Region:
        """The backward nodes."""
        return Region(self._view, self.path, self.call, Phase.BACKWARD)

    @property
    def recompute(self) -> Region:
        """The nodes that the backward computes again."""
        return Region(self._view, self.path, self.call, Phase.RECOMPUTE)

    @property
    def calls(self) -> tuple[Region, ...]:
        """One region for each call of the module; none for a container, which is never called."""
        index = self._view.index
        self._check(index)
        return tuple(Region(self._view, self.path, number, self.phase) for number in index.calls.get(self.path, ()))

    @property
    def children(self) -> Mapping[str, Region]:
        """The modules inside, by name, in the model's order.

        A program tells that order. A graph alone tells only that of its parameters: numbers come first, by value; then
        the modules that hold parameters, in the order of these; then the others by name.
        """
        index = self._view.index
        self._check(index)
        return {name: self._inside(self.path / name) for name in index.children[self.path]}

    @property
    def type_name(self) -> str:
        """The dotted name of the module's class, empty where the graph does not tell."""
        return self._view.index.types.get(self.path, "")

    @property
    def parameters(self) -> Mapping[str, fx.Node]:
        """The nodes that stand for parameters, buffers and constants of the module and those inside, by full name."""
        index = self._view.index
        self._check(index)
        return self._state(index)

    def _state(self, index: Index) -> Mapping[str, fx.Node]:
        found: dict[str, fx.Node] = {}
        for path in matching("**", index.children, self.path):
            found.update(index.state.get(path, {}))
        return found

    def costs(self) -> Table:
        """The costs of the module and all inside it as a table, equal siblings in one line."""
        index = self._view.index
        self._check(index)
        return table(index, self.path)

    @property
    def backward_region(self) -> Region:
        """The backward nodes: the twin of a module's forward."""
        return self.backward

    @property
    def _label(self) -> str:
        call = "" if self.call is None else f"_{self.call}"
        return f"{self.path}{call}" + ("" if self.phase is None else f"_{self.phase.value}")

    def _inside(self, path: ModulePath) -> Region:
        return Region(self._view, path, None, self.phase)

    @overload
    def __getitem__(self, key: int) -> Region: ...
    @overload
    def __getitem__(self, key: slice) -> Regions: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        index = self._view.index
        self._check(index)
        if isinstance(key, str):
            paths = matching(key, index.children, self.path)
            many = is_pattern(key) and paths != [ModulePath((*self.path.names, *key.split(".")))]
        else:
            many = isinstance(key, slice)
            paths = [self.path / name for name in numbered(key, index.children[self.path])]
        if not paths:
            full = f"{self.path}.{spelled(key)}" if self.path != ROOT else spelled(key)
            raise unknown(full, map(str, index.children))
        return Regions(self._inside(path) for path in paths) if many else self._inside(paths[0])

    def __getattr__(self, name: str) -> Region:
        if name.startswith("__") or "_view" not in self.__dict__:
            raise AttributeError(name)
        try:
            found: Region = self[name]
        except UnknownPathError as error:
            raise AttributeError(str(error)) from None
        return found

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self.children if name.isidentifier())]

    def __contains__(self, what: object) -> bool:
        """Whether a node is one of these, or a path or pattern leads to a module inside."""
        if not isinstance(what, str):
            return super().__contains__(what)
        index = self._view.index
        self._check(index)
        return bool(matching(what, index.children, self.path))

    def __iter__(self) -> Iterator[Region]:
        return iter(self.children.values())

    def __len__(self) -> int:
        return len(self.children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        return self._view is other._view and self._key == other._key

    def __hash__(self) -> int:
        return hash((id(self._view), self._key))

    @property
    def _key(self) -> tuple[ModulePath, int | None, Phase | None]:
        return self.path, self.call, self.phase

    def __repr__(self) -> str:
        index = self._view.index
        self._check(index)
        return tree(index, self.path)


class Regions(tuple[Region, ...]):
    """Several regions: what a pattern matches."""

    __slots__ = ()

    @property
    def nodes(self) -> tuple[fx.Node, ...]:
        """The nodes of all, each once, in the graph's order."""
        if not self:
            return ()
        index = self[0]._view.index  # once: each question compares the graph
        found = dict.fromkeys(node for region in self for node in region._find(index))
        return tuple(sorted(found, key=index.position.__getitem__))

    @property
    def forward(self) -> Regions:
        """The forward of each."""
        return Regions(region.forward for region in self)

    @property
    def backward(self) -> Regions:
        """The backward of each."""
        return Regions(region.backward for region in self)

    @property
    def recompute(self) -> Regions:
        """What the backward computes again of each."""
        return Regions(region.recompute for region in self)
