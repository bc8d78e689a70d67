"""`GraphView`: any fx graph seen as the modules that it was captured from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from unflatten.errors import EmptySelectionError, ViewError
from unflatten.notebooks import shown
from unflatten.paths import ROOT, Scope
from unflatten.view.bucketing import bucket
from unflatten.view.comparing import Diff, compare
from unflatten.view.extracting import inline
from unflatten.view.finding import conditions
from unflatten.view.index import WORK, Index
from unflatten.view.moving import after, before
from unflatten.view.origins import write_origin
from unflatten.view.region import Part, Region, Regions
from unflatten.view.selecting import matching, unknown
from unflatten.view.values import Owner, Phase

Where = fx.Graph | fx.GraphModule | ExportedProgram


class Group(Part):
    """The nodes that have one value under a key.

    Attributes:
        value: the value.
    """

    def __init__(self, view: GraphView, key: Callable[[fx.Node], Any], value: Hashable) -> None:
        super().__init__(view)
        self._key, self.value = key, value

    def _find(self, index: Index) -> list[fx.Node]:
        return [node for node in index.nodes if index.owners[node].kind in WORK and self._key(node) == self.value]

    def __repr__(self) -> str:
        return f"<{self.value!r}: {len(self.nodes)} nodes>"


class GraphView:
    """A graph seen as the modules that it was captured from: forward, backward and recomputed nodes.

    The graph stays as it is, and a view is never out of date: it looks at the graph again when that has changed.

    Args:
        where: a graph, the module that holds it, or an exported program, a joint one too.
        parameters: the full names of parameters and buffers among the graph's placeholders, where nothing in the graph
            tells them: by placeholder name, or in the order of the placeholders.
        forward: the program that a joint one was made from, where that lost the module stacks.

    Example:
        >>> import torch
        >>> from unflatten import GraphView
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        >>> GraphView(torch.export.export(model, (torch.ones(1, 2),)))
        Sequential(forward 2
          (0): Linear(forward 1)
          (1): ReLU(forward 1)
        )
    """

    def __init__(
        self,
        where: Where,
        parameters: Mapping[str, str] | Sequence[str] = (),
        *,
        forward: ExportedProgram | None = None,
    ) -> None:
        if not isinstance(where, fx.Graph | fx.GraphModule | ExportedProgram):
            raise TypeError(
                f"a view is of a torch.fx graph, a GraphModule or an ExportedProgram, not of a {type(where).__name__}"
            )
        self._where, self._parameters, self._forward = where, parameters, forward
        self._index: Index | None = None
        self._settled = 0

    @property
    def graph(self) -> fx.Graph:
        """The graph."""
        return self._where if isinstance(self._where, fx.Graph) else self._where.graph

    @property
    def module(self) -> fx.GraphModule:
        """The module that holds the graph.

        Raises:
            ViewError: the graph has none.
        """
        module = self.graph.owning_module if isinstance(self._where, fx.Graph) else self._where
        module = module.graph_module if isinstance(module, ExportedProgram) else module
        if not isinstance(module, fx.GraphModule):
            raise ViewError("this graph belongs to no module: make one with torch.fx.GraphModule(root, graph)")
        return module

    @property
    def index(self) -> Index:
        """What is known of the graph as it now is."""
        if self._index is None or not (self._settled or self._index.is_of(self.graph)):
            program = self._where if isinstance(self._where, ExportedProgram) else None
            self._index = Index.of(self.graph, program, self._parameters, self._forward)
        return self._index

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """Promises that the graph is not edited inside, so that it is not compared at each question."""
        _ = self.index
        self._settled += 1
        try:
            yield
        finally:
            self._settled -= 1

    @property
    def root(self) -> Region:
        """The whole graph."""
        return Region(self, ROOT)

    @property
    def forward(self) -> Region:
        """The forward of the whole graph."""
        return self.root.forward

    @property
    def backward(self) -> Region:
        """The backward of the whole graph."""
        return self.root.backward

    @property
    def recompute(self) -> Region:
        """What the backward of the whole graph computes again."""
        return self.root.recompute

    def owner(self, node: fx.Node | str) -> Owner:
        """The owner of any node: of placeholders, sums of gradients and the output too.

        Raises:
            ViewError: the graph has no such node.
        """
        index = self.index
        if isinstance(node, str):
            found = next((other for other in index.nodes if other.name == node), None)
        else:
            found = node if node in index.owners else None
        if found is None:
            raise ViewError(f"{node!s} is not a node of this graph")
        return index.owners[found]

    def find(
        self,
        *,
        path: str | None = None,
        cls: str | type | None = None,
        op: Any = None,
        annotation: str | Mapping[str, Any] | None = None,
        phase: Phase | str | None = None,
        where: Callable[[fx.Node], bool] | None = None,
        strict: bool = True,
    ) -> tuple[fx.Node, ...]:
        """The nodes for which all that is given holds, each once, in the graph's order.

        Args:
            path: a path or pattern of paths; nodes of modules inside count too.
            cls: a module class, by itself, its dotted name or its last name; nodes of modules inside count too.
            op: an operator, an overload packet, or a name such as `"mm"` or `"aten.mm"`.
            annotation: a key of `torch.fx.traceback.annotate`, or keys with their values.
            phase: a phase or its value.
            where: a condition on the node.
            strict: whether finding nothing is an error.

        Raises:
            UnknownPathError: there is no module of that path.
            EmptySelectionError: nothing was found.
        """
        index = self.index
        if path is not None and not matching(path, index.children):
            raise unknown(path, map(str, index.children))
        holds = conditions(index, path=path, cls=cls, op=op, annotation=annotation, phase=phase)
        found = tuple(
            node
            for node in index.nodes
            if index.owners[node].kind in WORK
            and all(condition(node) for condition in holds)
            and (where is None or where(node))
        )
        if strict and not found:
            asked = {"path": path, "cls": cls, "op": op, "annotation": annotation, "phase": phase, "where": where}
            given = ", ".join(f"{name}={value!r}" for name, value in asked.items() if value is not None)
            raise EmptySelectionError(f"no node has {given}; strict=False gives an empty tuple instead")
        return found

    def partition(self, key: str | Callable[[fx.Node], Hashable]) -> dict[Hashable, Group]:
        """Groups nodes by a key of their metadata, of their annotations, or by what a function gives.

        Nodes for which there is nothing, or None, are in no group.
        """
        read = (lambda node: _annotated(node, key)) if isinstance(key, str) else key
        index = self.index
        values = (read(node) for node in index.nodes if index.owners[node].kind in WORK)
        return {value: Group(self, read, value) for value in dict.fromkeys(values) if value is not None}

    def create(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        *,
        origin: fx.Node,
    ) -> fx.Node:
        """Makes a node right after another, which it inherits module, call and phase from.

        Arguments have to come before that node, or to be it.
        """
        owner = self.owner(origin)
        with self.graph.inserting_after(origin):
            node = self.graph.call_function(target, args, kwargs or {})
        kept = ("nn_module_stack", "fwd_nn_module_stack", "custom", "stack_trace", "partitioner_tag")
        node.meta.update({key: copy.copy(origin.meta[key]) for key in kept if key in origin.meta})
        write_origin(node, owner.scope, owner.phase)
        return node

    def inline(self, call: fx.Node) -> list[fx.Node]:
        """Puts the nodes of a called `GraphModule` in the place of the call: takes `outline` back.

        Raises:
            ViewError: the node calls no `GraphModule`.
        """
        return inline(self.module, call)

    def bucket(self, parts: Iterable[str | Part], op: str | None = None) -> list[fx.Node]:
        """Makes one collective of all equal ones of each of some parts, as `Region.bucket` does.

        Args:
            parts: regions or patterns of paths; each region has buckets of its own.
            op: one of the three operators; all where None.

        Raises:
            ViewError: a collective is in two of the parts; nothing is changed.
            EmptySelectionError: there is none.
        """
        index = self.index
        found = [each for part in parts for each in self._parts(part)]
        return bucket(index, self.module, [part._find(index) for part in found], op)

    def _parts(self, part: str | Part) -> list[Part]:
        if isinstance(part, Part):
            return [part]
        found = self[part]
        return list(found) if isinstance(found, Regions) else [found]

    def move_before(self, nodes: Iterable[fx.Node], anchor: fx.Node) -> list[fx.Node]:
        """Moves nodes to just before another, with what they need and is not early enough; gives what was moved.

        Raises:
            IllegalMoveError: something has to stay between them; nothing is changed.
        """
        return self.root._moved(before(self.index, list(nodes), anchor))

    def move_after(self, nodes: Iterable[fx.Node], anchor: fx.Node) -> list[fx.Node]:
        """Moves nodes to just after another, with what needs them and is not late enough; gives what was moved.

        Raises:
            IllegalMoveError: something has to stay between them; nothing is changed.
        """
        return self.root._moved(after(self.index, list(nodes), anchor))

    def __getitem__(self, key: str) -> Any:
        return self.root[key]

    def __getattr__(self, name: str) -> Region:
        if name.startswith("__") or "_where" not in self.__dict__:
            raise AttributeError(name)
        found: Region = getattr(self.root, name)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.root)})

    def __copy__(self) -> GraphView:
        return GraphView(self._where, self._parameters, forward=self._forward)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphView:
        where, parameters = copy.deepcopy((self._where, self._parameters), memo)
        return GraphView(where, parameters, forward=self._forward)

    def __reduce__(self) -> Any:
        if not isinstance(self._where, fx.GraphModule):
            raise TypeError(
                f"a view of a {type(self._where).__name__} can't be pickled, since that can't: pickle a view of a "
                "GraphModule, or use torch.export.save and view what was loaded"
            )
        index = self.index
        made = ((node, index.owners[node]) for node in index.nodes if node.op.startswith("call"))
        owners = [(str(node.target), owner.scope, owner.phase) for node, owner in made]
        names = {node.name: name for node, name in index.roles.names.items() if node.op == "placeholder"}
        return _restored, (self._where, names, owners)

    def __repr__(self) -> str:
        return repr(self.root)

    def _repr_html_(self) -> str | None:
        return shown("html", self)

    def _repr_svg_(self) -> str | None:
        return shown("svg", self)


def diff(first: GraphView, second: GraphView) -> Diff:
    """What the calls of two graphs do differently, by path, call, phase and operator."""
    return compare(first.index, second.index)


def _restored(
    module: fx.GraphModule, names: Mapping[str, str], owners: Sequence[tuple[str, Scope, Phase]]
) -> GraphView:
    """A view from its pickle.

    The pickle of a `GraphModule` is its code: nodes come back in order, but without metadata, with other names, and
    with some more for constants. So their owners stand beside it.
    """
    left = list(reversed(owners))
    for node in module.graph.nodes:
        if left and node.op.startswith("call") and str(node.target) == left[-1][0]:
            _, scope, phase = left.pop()
            write_origin(node, scope, phase)
    if left:
        raise ViewError(f"the pickled graph came back without {left[-1][0]}, and {len(left) - 1} operators after it")
    return GraphView(module, names)


def _annotated(node: fx.Node, key: str) -> Any:
    found = node.meta.get(key, (node.meta.get("custom") or {}).get(key))
    return tuple(found) if isinstance(found, list) else found
