"""Pictures of unflattened modules, as they are now: what stands in for another module is one box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn

from unflatten.calls.known import Place
from unflatten.code.body import Apply, Local
from unflatten.flat.operators import bodies
from unflatten.flat.values import FlatInput, FlatNode, Source, Value
from unflatten.modules import DEFINITION, PLACE, UnflattenedModule
from unflatten.paths import ROOT, ModulePath
from unflatten.regions import Region
from unflatten.render.building import Builder, narrowed
from unflatten.render.from_view import read_view
from unflatten.render.labels import (
    arguments_text,
    body_text,
    cut,
    meta_value,
    op_text,
    source_text,
    target_text,
    value_text,
)
from unflatten.render.picture import Cluster, Details, Node, Picture, Shape
from unflatten.rewrite.bypassed import ORIGINAL
from unflatten.view.selecting import unknown
from unflatten.view.view import GraphView


def read_module(module: UnflattenedModule, path: str) -> Picture:
    """The picture of a module that `unflatten` made, or of one inside of it.

    A module that came out of a pickle no longer knows its nodes: it is traced, so that shapes are missing.

    Raises:
        UnknownPathError: there is no module of that path.
    """
    names = ModulePath.parse(path).names
    if names and child_at(module, names) is None:
        raise unknown(path, (name for name, _ in module.named_modules()), "this module")
    place: Place = module.__dict__[PLACE]
    definition = getattr(type(module), DEFINITION, None)
    if not place.regions and definition is not None and definition.bodies:
        return read_view(GraphView(_traced(module)), path)
    reader = _Reader(module, place.path, ModulePath((*place.path.names, *names)))
    return reader.read(_outermost(place.regions, reader.drawn))


def child_at(module: nn.Module, names: tuple[str, ...]) -> nn.Module | None:
    """A descendant, whatever the names on the way; None where there is none."""
    found: nn.Module | None = module
    for name in names:
        found = found._modules.get(name) if found is not None else None
    return found


class _Tracer(fx.Tracer):
    """Goes through generated code, and through nothing else."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002  # torch's names
        return not isinstance(m, UnflattenedModule)


def _traced(module: nn.Module) -> fx.Graph:
    graph = _Tracer().trace(module)
    graph.owning_module = module  # type: ignore[assignment]  # which tells classes
    return graph


def _outermost(regions: tuple[Region, ...], path: ModulePath) -> list[Region]:
    """The calls of a module, or of those in a container, that are in no other such call."""
    found: list[Region] = []
    stack = list(reversed(regions))
    while stack:
        region = stack.pop()
        if region.path.is_within(path):
            found.append(region)
        else:
            stack.extend(reversed(region.children))
    return found


@dataclass(eq=False, slots=True)
class _Reader:
    """Reads regions.

    Attributes:
        module: the module that was given.
        path: its own.
        drawn: that of the module which is drawn.
    """

    module: UnflattenedModule
    path: ModulePath
    drawn: ModulePath
    numbers: dict[Value, int] = field(default_factory=dict)

    def read(self, regions: list[Region]) -> Picture:
        """The picture."""
        kind, details = self.described(ROOT if not self.path.names else self.path)
        root = Cluster(-1, "", "", kind, details=details)
        builder = Builder(self.drawn.name or kind.rpartition(".")[2] or "graph", root, self.described)
        flat: list[FlatNode] = []
        for region in regions:
            flat += self._region(builder, region)
        for node in flat:
            for operand in dict.fromkeys(node.operands):
                if (source := self._source(builder, operand)) is not None:
                    builder.join(source, self.numbers[node])
        self._outputs(builder, regions, set(flat))
        return narrowed(builder.finish(), str(self.drawn))

    def described(self, path: ModulePath) -> tuple[str, Details]:
        """The class of a module, and what it holds."""
        module = self._at(path)
        if module is None:
            return "", ()
        definition = getattr(type(module), DEFINITION, None)
        kind = definition.type_name if definition is not None else _type_name(module)
        held: list[tuple[str, str, Any]] = [(name, "parameter", value) for name, value in module._parameters.items()]
        held += [(name, "buffer", value) for name, value in module._buffers.items()]
        found = [(name, f"{what} {value_text(value)}") for name, what, value in held if value is not None]
        return kind, (("is", cut(module.extra_repr(), 200)), *found) if module.extra_repr() else tuple(found)

    def _at(self, path: ModulePath) -> nn.Module | None:
        return child_at(self.module, path.below(self.path)) if path.is_within(self.path) else None

    def _region(self, builder: Builder, top: Region) -> list[FlatNode]:
        """Adds the nodes of a region; gives them."""
        found: list[FlatNode] = []
        stack: list[tuple[FlatNode | Region, int, ModulePath]] = [(top, 0, ROOT)]
        while stack:
            item, cluster, around = stack.pop()
            if isinstance(item, FlatNode):
                found.append(item)
                self.numbers[item] = builder.add(self._node(item, cluster))
                continue
            if item.call is not None:
                piece = (item.piece, item.cut) if item.cut else None
                cluster = builder.call(cluster, around, item.call, "forward", piece)
            if self._is_replaced(item):
                self._replaced(builder, item, cluster)
            else:
                stack.extend((inner, cluster, item.path) for inner in reversed(item.items))
        return found

    def _is_replaced(self, region: Region) -> bool:
        module = self._at(region.path)
        if module is None or region.call is None:
            return False
        if ORIGINAL in module.__dict__:
            return True
        if isinstance(module, UnflattenedModule):
            place: Place = module.__dict__[PLACE]
            return bool(place.regions) and all(region is not other for other in place.regions)
        return _type_name(module).rpartition(".")[2] != region.call.type_name.rpartition(".")[2] != ""

    def _replaced(self, builder: Builder, region: Region, cluster: int) -> None:
        """One box in the place of a call of what is there no longer."""
        module = self._at(region.path)
        name = region.path.name
        details: Details = (
            ("stands in for", region.call.type_name if region.call else ""),
            ("is", cut(repr(module), 400)),
        )
        value = ", ".join(meta_value(output.meta) for output in region.outputs)
        made = builder.add(Node(name, type(module).__name__, cluster, value, Shape.MODULE, details=details))
        for inner in region.nodes:
            self.numbers[inner] = made
        for operand in region.inputs:
            if (source := self._source(builder, operand)) is not None:
                builder.join(source, made)

    def _node(self, node: FlatNode, cluster: int) -> Node:
        details = [("arguments", arguments_text(node.args, node.kwargs))]
        details += (
            (operand.fqn or operand.name, f"{operand.source.value} {meta_value(operand.meta)}")
            for operand in node.operands
            if isinstance(operand, FlatInput) and operand.source is not Source.USER
        )
        details += ((body.name, body_text(body.module)) for body in bodies(node))
        if source := source_text(node.meta):
            details.append(("source", source))
        value, op = meta_value(node.meta), op_text(node.target)
        return Node(node.name, op, cluster, value, target=target_text(node.target), details=tuple(details))

    def _source(self, builder: Builder, value: Value) -> int | None:
        """Where a value comes from; None for parameters and the like, which are no boxes."""
        if isinstance(value, FlatInput) and value.source is not Source.USER:
            return None
        if value not in self.numbers:
            outside = value.scope[-1] if isinstance(value, FlatNode) and value.scope else "outside"
            details: Details = (("from", "the caller" if isinstance(value, FlatInput) else str(outside)),)
            made = Node(value.name, value.name, 0, meta_value(value.meta), Shape.INPUT, details=details)
            self.numbers[value] = builder.add(made)
        return self.numbers[value]

    def _outputs(self, builder: Builder, regions: list[Region], inside: set[FlatNode]) -> None:
        """Adds what is used outside of all that is drawn."""
        given = [value for region in regions for value in region.outputs]
        if not self.path.names:
            returned = list(_returned(self.module))
            given += returned if regions and regions[0].call is None else ()
            if len(regions) > 1:
                place: Place = self.module.__dict__[PLACE]
                others = (node for region in place.regions for node in region.nodes if node not in inside)
                used = {operand for node in others for operand in node.operands} | set(returned)
                given = [value for value in given if value in used]
        for value in dict.fromkeys(given):
            if value in self.numbers:
                details: Details = (("value", value.name),)
                text = meta_value(value.meta)
                made = Node(f"output {value.name}", "output", 0, text, Shape.OUTPUT, details=details)
                builder.join(self.numbers[value], builder.add(made))


def _type_name(module: nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _returned(root: UnflattenedModule) -> Iterator[FlatNode]:
    """The values that a program returns, by its code."""
    place: Place = root.__dict__[PLACE]
    made: dict[int, tuple[FlatNode, ...]] = {}
    for body, origins in zip(getattr(type(root), DEFINITION).bodies, place.origins, strict=False):
        for step, origin in zip(body.steps, origins, strict=True):
            if isinstance(step, Apply) and isinstance(origin, FlatNode):
                made[step.out] = (origin,)
            elif isinstance(origin, Region) and not isinstance(step, Apply):
                exact = len(step.outs) == len(origin.outputs)
                for at, (local, _) in enumerate(step.outs):
                    made[local] = (origin.outputs[at],) if exact else origin.outputs
        for leaf in _leaves(body.result):
            yield from made.get(leaf.index, ()) if isinstance(leaf, Local) else ()


def _leaves(value: Any) -> Iterator[Any]:
    """What a result is made of."""
    stack = [value]
    while stack:
        item = stack.pop()
        inner = getattr(item, "leaves", None) or getattr(item, "fields", None)
        if inner is not None:
            stack.append(inner)
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
        elif isinstance(item, tuple | list):
            stack.extend(reversed(item))
        else:
            yield item
