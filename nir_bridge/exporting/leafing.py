"""Calls of modules that are nodes, or are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import nir
from torch import Tensor, nn

from nir_bridge.errors import ExportError, NoMeaningError
from nir_bridge.exporting.arguments import is_state_name, named_arguments
from nir_bridge.exporting.modules import BYPASS, Registry
from nir_bridge.exporting.recipes import Given, Recipe
from nir_bridge.exporting.restoring import sketch_of
from nir_bridge.exporting.trace import Signal, StatePart
from nir_bridge.exporting.tracer import Tracer
from nir_bridge.exporting.trees import Place, items, mapped, tensors
from nir_bridge.module import PLAN
from nir_bridge.plan import Plan

Inputs = dict[str, tuple[Signal, Tensor]]


@dataclass(frozen=True, slots=True)
class Leaves:
    """Which modules are nodes, and which are left out.

    Attributes:
        registry: what modules mean.
        states: the names of parameters that take a state, by identity of the original module.
    """

    registry: Registry
    states: Mapping[int, str | None]

    def __call__(
        self, tracer: Tracer, module: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """A call of a module; NotImplemented to look inside it."""
        if not tracer.depends(args, kwargs):
            return NotImplemented
        original = tracer.shadow.originals.get(id(module), module)
        where = tracer.where(module, original)
        left_out = id(original) in self.registry.bypassed
        with tracer.unseen():
            recipe = BYPASS if left_out else self.registry.recipe(original, where, module)
        if recipe is None:
            return NotImplemented
        inputs, states = self.sorted_arguments(tracer, module, original, (args, kwargs), where)
        if not inputs:
            raise NoMeaningError(f"{where}: none of its inputs is a signal")
        visit = _Visit(tracer, module, inputs, states, where)
        result = visit.ran(forward, args, kwargs)
        if isinstance(recipe, str):
            return visit.left_out(result)
        assert_single(recipe, inputs, where)
        return visit.noted(recipe, result)

    def sorted_arguments(
        self, tracer: Tracer, module: nn.Module, original: nn.Module, called: tuple[Any, Any], where: str
    ) -> tuple[Inputs, tuple[int, ...]]:
        """The signals that go in, by name, and the operations whose states do."""
        inputs: Inputs = {}
        states: list[int] = []
        named = _port_names(original, named_arguments(module, *called))
        known = self.states.get(id(original))
        for at, (name, value) in enumerate(named.items()):
            is_state = name == known or (known is None and at > 0 and is_state_name(name))
            for place, tensor in tensors(value):
                found = tracer.value(tensor)
                if isinstance(found, StatePart):
                    states.append(found.op)
                elif isinstance(found, Signal) and not is_state:
                    inputs[".".join((name, *place))] = (found, tensor)
            if at == 0 and not is_state and any(isinstance(tracer.value(t), StatePart) for _, t in tensors(value)):
                raise NoMeaningError(
                    f"{where}: its input is the state of a module. In NIR a node gives only its output; use what the "
                    "module returns first"
                )
        return inputs, tuple(dict.fromkeys(states))


def _port_names(module: nn.Module, named: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a network that `from_nir` made, by the names of its Input nodes."""
    if sketch_of(module) is None:
        return named
    plan: Plan = module.__dict__[PLAN]
    names = {port.parameter: port.name for port in plan.ports}
    return {names.get(name, name): value for name, value in named.items()}


def assert_single(recipe: Any, inputs: Inputs, where: str) -> None:
    """Checks that a node gets as many signals as it takes.

    Raises:
        NoMeaningError: it gets more.
    """
    ports: list[str] = []
    if isinstance(recipe, Given) and isinstance(recipe.given, nir.NIRGraph):
        ports = sorted(recipe.given.inputs)
    if len(inputs) == 1 or set(inputs) <= set(ports):
        return
    raise NoMeaningError(
        f"{where}: it takes {len(inputs)} signals ({', '.join(inputs)}), and a NIR node takes one, the sum of its "
        "edges. Map it to a nir.NIRGraph with an Input for each, named as they are; if one is its state, say so: "
        f"to_nir(model, stateful_modules={{{where.rsplit('(', maxsplit=1)[-1].rstrip(')')}: {list(inputs)[-1]!r}}})"
    )


@dataclass(slots=True)
class _Visit:
    """One call of a module that is not looked into."""

    tracer: Tracer
    module: nn.Module
    inputs: Inputs
    states: tuple[int, ...]
    where: str
    written: tuple[Tensor, ...] = ()

    def ran(self, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result; notes which arguments were written to."""
        before = [(tensor, tensor._version) for _, tensor in tensors((args, kwargs))]
        with self.tracer.unseen():
            result = forward(*args, **kwargs)
        self.written = tuple(tensor for tensor, version in before if tensor._version != version)
        return result

    def left_out(self, result: Any) -> Any:
        """The first input goes straight to what the first result goes to; the rest carries no signal."""
        signal, given = next(iter(self.inputs.values()))
        for place, tensor in tensors(result):
            if tensor.shape != given.shape:
                raise ExportError(
                    f"{self.where}: it can't be left out, since it changes the shape from {self.tracer.shape(given)} "
                    f"to {self.tracer.shape(tensor)}; map it to a node"
                )
            passed = tensor if tensor is given else self.tracer.fresh(tensor)
            self.tracer.bind(passed, signal)
            return mapped(result, {place: passed}.get)
        return result

    def noted(self, recipe: Recipe, result: Any) -> Any:
        """The call is a node: the first tensor, or those that a graph names, are its output, the others its state."""
        found = list(tensors(result))
        if not found:
            raise ExportError(f"{self.where}: it returned a {type(result).__name__} without a tensor")
        outputs = _Outputs.of(recipe, result)
        name, gives = self.tracer.name(self.module), self.tracer.shape(found[0][1])
        op = self.tracer.emit(name, recipe, self.inputs, gives, self.where, self.module, self.states)
        self.tracer.trace.ops[op] = replace(self.tracer.trace.ops[op], gives_state=len(found) > outputs.count)
        for tensor in self.written:
            self.tracer.overwritten(tensor, self.where)
        changes: dict[Place, Tensor] = {}
        seen: dict[int, Tensor] = {}
        for at, (place, tensor) in enumerate(found):
            if id(tensor) not in seen:
                is_written = any(tensor is each for each in self.written)
                seen[id(tensor)] = self.passed(tensor, is_written=is_written)
                key = outputs.key(place, at)
                value = StatePart(op) if key is False else self.tracer.result(op, key, self.guess(tensor))
                self.tracer.bind(seen[id(tensor)], value)
            changes[place] = seen[id(tensor)]
        return mapped(result, changes.get)

    def passed(self, tensor: Tensor, *, is_written: bool) -> Tensor:
        """A result that is no other tensor that is known already, but for one that was written to."""
        return self.tracer.fresh(tensor) if self.tracer.depends(tensor, ()) and not is_written else tensor

    def guess(self, tensor: Tensor) -> frozenset[int]:
        """The inputs of unknown shape that have the shape of a result."""
        signal, given = next(iter(self.inputs.values()))
        return signal.guess if given.shape == tensor.shape else frozenset()


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Which tensors of a result are outputs of a graph.

    Attributes:
        names: of its Output nodes; none for a plain node, or a graph with one.
        prefix: the key of the container that holds them, where there is one.
        named: whether they are found by key, instead of by number.
    """

    names: tuple[str, ...] = ()
    prefix: str | None = None
    named: bool = False

    @staticmethod
    def of(recipe: Recipe, result: Any) -> _Outputs:
        graph = recipe.given if isinstance(recipe, Given) else None
        names = tuple(sorted(graph.outputs)) if isinstance(graph, nir.NIRGraph) else ()
        if len(names) < 2:
            return _Outputs()
        held = items(result) or []
        inner = {key for key, _ in items(held[0][1]) or []} if held else set()
        if inner == set(names):
            return _Outputs(names, held[0][0], True)
        return _Outputs(names, None, set(names) <= {key for key, _ in held})

    @property
    def count(self) -> int:
        return max(len(self.names), 1)

    def key(self, place: Place, at: int) -> Any:
        """The name of the Output that a tensor is, None where there is one only; False where it is a state."""
        if not self.names:
            return None if at == 0 else False
        if self.prefix is not None:
            return place[1] if place[0] == self.prefix else False
        if self.named:
            return place[0] if place[0] in self.names else False
        return self.names[at] if at < len(self.names) else False
