"""What graph passes do to a graph without changing what it computes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import fx
from torch.export import ExportedProgram

from unflatten import _torch
from unflatten.errors import ViewError
from unflatten.flat.operators import HIDDEN_WRITES
from unflatten.testing.orders import Graphs, dependencies, graph_of, order_by, recompile


@dataclass(frozen=True)
class Edit:
    """One edit of a graph.

    Attributes:
        name: what is done, one of `EDITS`.
        node: the name of the operator that it is done to.
    """

    name: str
    node: str

    def apply(self, graph: Graphs) -> None:
        """Edits a graph, a module or a program; nothing happens where the operator is gone."""
        inner = graph_of(graph)
        node = next((node for node in operators(inner) if node.name == self.node), None)
        if node is not None:
            EDITS[self.name](node)
        inner.lint()
        recompile(graph)


@dataclass(frozen=True)
class Edits:
    """Edits that are made one after the other.

    Attributes:
        edits: the edits.
    """

    edits: tuple[Edit, ...] = ()

    def apply(self, graph: Graphs) -> None:
        """Edits a graph, a module or a program."""
        for edit in self.edits:
            edit.apply(graph)

    def edited(self, program: ExportedProgram) -> ExportedProgram:
        """An edited copy of a program; state is shared."""
        module = copy.deepcopy(program.graph_module)
        twin = copy.copy(program)
        _torch.set_graph_module(twin, module)
        self.apply(twin)
        return twin


def operators(graph: fx.Graph) -> list[fx.Node]:
    """The operators of a graph."""
    return [node for node in graph.nodes if node.op == "call_function"]


def merge(node: fx.Node) -> None:
    """Common subexpressions: the operators that compute the same as this one are replaced by the first of them."""
    if not _is_free(node):
        return
    same = [other for other in operators(node.graph) if _is_free(other) and _key(other) == _key(node)]
    for other in same[1:]:
        if node.graph.output_node() not in other.users:
            other.replace_all_uses_with(same[0])
            node.graph.erase_node(other)


def hoist(node: fx.Node) -> None:
    """The operator runs as early as it may."""
    order_by(node.graph, "hoist", _except(node, -1)).apply(node.graph)


def sink(node: fx.Node) -> None:
    """The operator runs as late as it may, and all that need it after it."""
    order_by(node.graph, "sink", _except(node, len(node.graph.nodes))).apply(node.graph)


def add_dead_code(node: fx.Node) -> None:
    """An operator that nobody uses is added, with the metadata of this one."""
    if _is_pure(node):
        with node.graph.inserting_after(node):
            _copy_of(node, node)


def remove_dead_code(node: fx.Node) -> None:
    """The operator is removed where nobody uses it."""
    if not node.users and _is_pure(node):
        node.graph.erase_node(node)


def strip(node: fx.Node) -> None:
    """All metadata but the value is removed, as by a pass that rebuilt the operator."""
    node.meta = {key: value for key, value in node.meta.items() if key == "val"}


def insert(node: fx.Node) -> None:
    """A copy of the result is put between the operator and its users, with no metadata of where it belongs."""
    value, output = node.meta.get("val"), node.graph.output_node()
    if not isinstance(value, torch.Tensor) or not _is_free(node):
        return
    with node.graph.inserting_after(node):
        between = node.graph.call_function(torch.ops.aten.clone.default, (node,))
    between.meta = {"val": value}
    node.replace_all_uses_with(between, delete_user_cb=lambda user: user not in (between, output))


def duplicate(node: fx.Node) -> None:
    """The last user gets an operator of its own that computes the same, as by rematerialisation."""
    users = [user for user in node.users if user.op != "output"]
    if users and len(node.users) > 1 and _is_free(node):
        with node.graph.inserting_before(users[-1]):
            twin = _copy_of(node, users[-1])
        users[-1].replace_input_with(node, twin)


EDITS: dict[str, Callable[[fx.Node], None]] = {
    "strip": strip,
    "hoist": hoist,
    "sink": sink,
    "merge": merge,
    "insert": insert,
    "add_dead_code": add_dead_code,
    "remove_dead_code": remove_dead_code,
    "duplicate": duplicate,
}
"""The edits by name; each takes the operator that it is about, and changes the graph around it."""


def graph_edits(graph: Graphs, *, names: tuple[str, ...] = tuple(EDITS), max_size: int = 6) -> st.SearchStrategy[Edits]:
    """Edits of a graph after which it computes the same.

    Args:
        graph: the graph, or the module or program that has it; it is left as it is. A program is best functional
            (`run_decompositions({})`): among writes, most edits can't be made, and are left out.
        names: the edits to draw from, of `EDITS`.
        max_size: how many edits there are, at most.

    Raises:
        ViewError: there is no edit of a name.

    Example:
        >>> from hypothesis import find
        >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(1),))
        >>> edits = find(graph_edits(program), lambda edits: len(edits.edits) == 1)
        >>> edits
        Edits(edits=(Edit(name='strip', node='relu'),))
        >>> [node.name for node in edits.edited(program).graph.nodes if not node.meta.get("nn_module_stack")]
        ['input_1', 'relu', 'output']
    """
    unknown = [name for name in names if name not in EDITS]
    if unknown:
        raise ViewError(f"there is no edit named {unknown[0]!r}: there are {', '.join(EDITS)}")
    nodes = [node.name for node in operators(graph_of(graph))]
    if not nodes or not names:
        return st.just(Edits())
    edit = st.builds(Edit, st.sampled_from(names), st.sampled_from(nodes))
    return st.lists(edit, max_size=max_size).map(tuple).map(Edits)


def _except(node: fx.Node, rank: float) -> Callable[[fx.Node], float]:
    """Ranks by place, but for one node and, where it goes up, all that it needs."""
    place: dict[fx.Node, float] = {other: at for at, other in enumerate(node.graph.nodes)}
    moved = {node}
    if rank < 0:
        before, pending = dependencies(node.graph), [node]
        while pending:
            pending += (new := before.get(pending.pop(), set()) - moved)
            moved |= new
    return lambda other: rank if other in moved else place[other]


def _is_pure(node: fx.Node) -> bool:
    """Whether nobody notices that an operator runs once more."""
    return node.op == "call_function" and not _torch.is_ordered(node) and node.target not in HIDDEN_WRITES


def _is_free(node: fx.Node) -> bool:
    """Whether users may get a copy of what an operator gives: it is pure, and nobody writes anything."""
    return _is_pure(node) and not any(map(_torch.is_write, node.graph.nodes))


def _copy_of(node: fx.Node, place: fx.Node) -> fx.Node:
    twin = node.graph.node_copy(node, lambda other: other)
    twin.meta = {**node.meta, **{key: place.meta[key] for key in _PLACE if key in place.meta}}
    return twin


_PLACE = ("nn_module_stack", "stack_trace", "source_fn_stack")


def _key(node: fx.Node) -> tuple[object, ...]:
    """What operators have in common that compute the same."""
    return node.target, repr(node.args), repr(sorted(node.kwargs.items()))
