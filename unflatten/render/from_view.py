"""Pictures of fx graphs, by way of a view of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from unflatten.errors import NotDrawableError
from unflatten.paths import ROOT, ModulePath, Scope
from unflatten.render.building import Builder, narrowed
from unflatten.render.labels import arguments_text, body_text, meta_value, op_text, source_text, target_text
from unflatten.render.picture import Cluster, Details, Node, Picture, Shape
from unflatten.view.index import WORK, Index
from unflatten.view.region import Part, Region, Regions
from unflatten.view.values import Kind, Owner, Phase
from unflatten.view.view import GraphView

_SHAPES = {Kind.ACCUMULATION: Shape.ACCUMULATION, Kind.COLLECTIVE: Shape.COLLECTIVE}
_STATE = (Kind.PARAMETER, Kind.BUFFER, Kind.CONSTANT)


def read_view(view: GraphView, path: str) -> Picture:
    """The picture of a graph, or of the part of it at a path or pattern.

    Raises:
        UnknownPathError: there is no module of that path.
    """
    return read_part(view[path]) if path else _Reader(view.index, view.index.nodes, whole=True).read("")


def read_part(part: Part | Regions, path: str = "") -> Picture:
    """The picture of a part of a graph, or of a module inside of it.

    Raises:
        UnknownPathError: there is no module of that path.
    """
    if path:
        if not isinstance(part, Region):
            raise NotDrawableError(f"only a region has modules inside: draw all of this, or view[{path!r}]")
        return read_part(part[path])
    if isinstance(part, Region) and part.path == ROOT and part.call is None and part.phase is None:
        return _Reader(part._view.index, part._view.index.nodes, whole=True).read("")
    nodes = part.nodes
    index = (part[0] if isinstance(part, Regions) else part)._view.index
    return _Reader(index, nodes, whole=False).read(str(part.path) if isinstance(part, Region) else "")


@dataclass(eq=False, slots=True)
class _Reader:
    """Reads some nodes of a graph.

    Attributes:
        index: what is known of the graph.
        nodes: the nodes, in order.
        whole: whether these are all nodes.
    """

    index: Index
    nodes: Sequence[fx.Node]
    whole: bool

    def read(self, path: str) -> Picture:
        """The picture."""
        work = [node for node in self.nodes if self.index.owners[node].kind in WORK]
        title = ModulePath.parse(path).name or self._type(ROOT).rpartition(".")[2] or "graph"
        root = Cluster(-1, "", type_name=self._type(ROOT) or "graph", details=self.described(ROOT)[1])
        builder = Builder(title, root, self.described)
        several = len({self.index.owners[node].phase for node in work}) > 1
        clusters: dict[Any, int] = {}
        numbers: dict[fx.Node, int] = {}
        if self.whole:
            self._inputs(builder, numbers)
        for node in work:
            owner = self.index.owners[node]
            key = (id(owner.scope), owner.phase)
            if key not in clusters:
                clusters[key] = self._cluster(builder, owner.scope, owner.phase, several)
            numbers[node] = builder.add(self._node(node, owner, clusters[key]))
        inside = dict(numbers)
        for node in work:
            for other in node.all_input_nodes:
                if other in inside or self._is_port(builder, numbers, other):
                    builder.join(numbers[other], numbers[node])
        self._outputs(builder, inside, work)
        return narrowed(builder.finish(), path)

    def _type(self, path: ModulePath) -> str:
        return self.index.types.get(path, "")

    def described(self, path: ModulePath) -> tuple[str, Details]:
        """The class of a module, and what it holds."""
        held = self.index.state.get(path, {})
        found = []
        for name, node in held.items():
            kind = self.index.owners[node].kind.value
            found.append((name.rpartition(".")[2], f"{kind} {meta_value(node.meta)}".strip()))
        return self._type(path), tuple(found)

    def _cluster(self, builder: Builder, scope: Scope, phase: Phase, several: bool) -> int:
        at = builder.phase(phase.value) if several else 0
        path = ROOT
        for call in scope:
            at = builder.call(at, path, call, phase.value)
            path = call.path
        return at

    def _node(self, node: fx.Node, owner: Owner, cluster: int) -> Node:
        return Node(
            node.name,
            self._op(node),
            cluster,
            meta_value(node.meta),
            _SHAPES.get(owner.kind, Shape.COMPUTE),
            owner.phase.value,
            target_text(node.target),
            tuple(self._details(node, owner)),
        )

    def _op(self, node: fx.Node) -> str:
        if node.op == "call_module":
            root = node.graph.owning_module
            try:
                return type(root.get_submodule(str(node.target))).__name__ if root is not None else str(node.target)
            except AttributeError:
                return str(node.target)
        return op_text(node.target)

    def _details(self, node: fx.Node, owner: Owner) -> Iterable[tuple[str, str]]:
        if node.args or node.kwargs:
            yield "arguments", arguments_text(node.args, node.kwargs)
        for other in node.all_input_nodes:
            kind = self.index.owners[other].kind
            if other.op == "get_attr" and (body := _body(other)) is not None:
                yield str(other.target), body_text(body)
            elif kind in _STATE:
                yield self.index.roles.names.get(other, other.name), f"{kind.value} {meta_value(other.meta)}".strip()
        gradient = self.index.roles.gradients.get(node)
        if gradient is not None:
            yield "gradient of", self.index.roles.names.get(gradient, gradient.name)
        if node in self.index.roles.mutations:
            yield "written", "the new value of a buffer or input"
        if owner.phase is Phase.FORWARD and self._is_saved(node):
            yield "saved", "the backward uses it"
        if source := source_text(node.meta):
            yield "source", source
        yield "owner", f"{owner.path if owner.path != ROOT else 'the root'}: {owner.evidence.value}"

    def _is_saved(self, node: fx.Node) -> bool:
        owners = self.index.owners
        return any(owners[user].phase is not Phase.FORWARD and user.op != "output" for user in node.users)

    def _inputs(self, builder: Builder, numbers: dict[fx.Node, int]) -> None:
        for node in self.nodes:
            if node.op == "placeholder" and self.index.owners[node].kind not in _STATE:
                self._input(builder, numbers, node)

    def _input(self, builder: Builder, numbers: dict[fx.Node, int], node: fx.Node) -> None:
        owner = self.index.owners[node]
        details: Details = (("kind", owner.kind.value),) if node.op == "placeholder" else (("from", str(owner)),)
        made = Node(node.name, node.name, 0, meta_value(node.meta), Shape.INPUT, owner.phase.value, "", details)
        numbers[node] = builder.add(made)

    def _is_port(self, builder: Builder, numbers: dict[fx.Node, int], node: fx.Node) -> bool:
        """Whether a node outside that one inside takes is a box, as all but parameters are; adds it."""
        if self.index.owners[node].kind in _STATE:
            return False
        if node not in numbers:
            self._input(builder, numbers, node)
        return True

    def _outputs(self, builder: Builder, inside: dict[fx.Node, int], work: Sequence[fx.Node]) -> None:
        roles = self.index.roles
        hidden = {*roles.gradients, *roles.mutations, *roles.saved}
        returned = set(roles.results) - hidden
        candidates = roles.results if self.whole else work
        for node in candidates:
            phase = self.index.owners[node].phase
            users = (user for user in node.users if user not in inside and user.op != "output")
            goes = not self.whole and any(self.index.owners[user].phase is phase for user in users)
            if node in inside and (node in returned or goes):
                value = meta_value(node.meta)
                op = "loss" if node is roles.loss else "output"
                made = Node(f"output {node.name}", op, 0, value, Shape.OUTPUT, phase.value, "", (("value", node.name),))
                builder.join(inside[node], builder.add(made))


def _body(node: fx.Node) -> fx.GraphModule | None:
    """The graph that a node stands for, as branches and loops take it."""
    found = getattr(node.graph.owning_module, str(node.target), None)
    return found if isinstance(found, fx.GraphModule) else None
