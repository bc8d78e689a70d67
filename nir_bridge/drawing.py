"""Pictures of networks: a box for each node, a frame for each group, delayed edges dashed."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from nir_bridge.plan import Plan, Unit
from nir_bridge.primitives.neuron import Neuron
from unflatten.info import info
from unflatten.paths import ROOT, ModuleCall, ModulePath
from unflatten.render.building import Builder, narrowed
from unflatten.render.from_module import child_at
from unflatten.render.from_view import read_view
from unflatten.render.labels import type_text
from unflatten.render.picture import Cluster, Details, Node, Picture, Shape
from unflatten.view.selecting import unknown
from unflatten.view.view import GraphView

PLAN = "@nir"


def read_network(module: Any, path: str) -> Picture:
    """The picture of a network, or of one of its groups.

    Raises:
        UnknownPathError: there is no module of that path.
    """
    plan: Plan = module.__dict__[PLAN]
    wanted = ModulePath.parse(path)
    if wanted.names and child_at(module, wanted.names) is None:
        raise unknown(path, (name for name, _ in module.named_modules()), "this network")
    if plan.network is None:  # a group alone does not know what is around it
        graph = info(module).graph
        graph.owning_module = module
        return read_view(GraphView(graph), path)
    return _Reader(module, plan, plan.network.units, wanted).read()


class _Reader:
    """Reads the units of a network."""

    def __init__(self, module: nn.Module, plan: Plan, units: tuple[Unit, ...], wanted: ModulePath) -> None:
        self.module, self.plan, self.units, self.wanted = module, plan, units, wanted
        root = Cluster(-1, "", type_name=self.described(ROOT)[0])
        self.builder = Builder(wanted.name or "network", root, self.described)
        self.numbers: dict[int, int] = {}

    def read(self) -> Picture:
        """The picture."""
        inside = [at for at, unit in enumerate(self.units) if unit.path[: len(self.wanted.names)] == self.wanted.names]
        for at in inside:
            self.numbers[at] = self.builder.add(self._node(self.units[at], self._cluster(self.units[at])))
        kept = set(inside)
        given: dict[int, None] = {}
        for target, unit in enumerate(self.units):
            for term in unit.terms:
                if target in kept:
                    self.builder.join(self._source(term.source), self.numbers[target], term.delayed)
                elif term.source in kept:
                    given.setdefault(term.source)
        for at in given:
            name = self.units[at].label
            made = Node(f"output {name}", "output", 0, shape=Shape.OUTPUT, details=(("value", name),))
            self.builder.join(self.numbers[at], self.builder.add(made))
        return narrowed(self.builder.finish(), str(self.wanted))

    def described(self, path: ModulePath) -> tuple[str, Details]:
        """The class of a group."""
        found = child_at(self.module, path.names)
        kind = "" if found is None or isinstance(found, nn.ModuleDict | nn.ModuleList) else type(found).__name__
        return kind, ()

    def _cluster(self, unit: Unit) -> int:
        around = ModulePath(unit.path[:-1])
        return self.builder.call(0, ROOT, ModuleCall(around), "forward") if around.names else 0

    def _source(self, at: int) -> int:
        if at not in self.numbers:
            unit = self.units[at]
            made = Node(unit.label, unit.label, 0, shape=Shape.INPUT, details=(("from", "outside"),))
            self.numbers[at] = self.builder.add(made)
        return self.numbers[at]

    def _node(self, unit: Unit, cluster: int) -> Node:
        name = unit.path[-1]
        if unit.silent is not None:
            return Node(unit.label, "zeros", cluster, "x".join(map(str, unit.silent)), Shape.INPUT)
        if unit.is_input:
            shape = next((port.shape for port in self.plan.ports if port.name == unit.label), None)
            value = "x".join(map(str, shape)) if shape else ""
            return Node(unit.label, name, cluster, value, Shape.INPUT)
        module = child_at(self.module, unit.path) if unit.has_module else None
        if module is None:
            return Node(unit.label, name, cluster, shape=Shape.OUTPUT)
        value = _value(module)
        target = f"{type(module).__module__}.{type(module).__qualname__}"
        return Node(
            unit.label, f"{name}: {type(module).__name__}", cluster, value, target=target, details=_held(module)
        )


def _value(module: nn.Module) -> str:
    """The shape of what a module gives, where what it holds tells."""
    held = [tensor for tensor in (*module.parameters(False), *module.buffers(False)) if tensor.dim()]
    if isinstance(module, Neuron) and held:
        return "x".join(map(str, max(held, key=Tensor.numel).shape))
    return str(module.out_features) if isinstance(module, nn.Linear) else ""


def _held(module: nn.Module) -> Details:
    held: list[tuple[str, str, Tensor]] = [
        (name, "parameter", value) for name, value in module.named_parameters(recurse=False)
    ]
    held += [(name, "buffer", value) for name, value in module.named_buffers(recurse=False)]
    texts = (
        (name, f"{kind} {'x'.join(map(str, value.shape)) or 'scalar'} {type_text(value.dtype)}")
        for name, kind, value in held
    )
    stateful = (("state", ", ".join(module.parts)),) if isinstance(module, Neuron) else ()
    return (*((("is", module.extra_repr()),) if module.extra_repr() else ()), *texts, *stateful)
