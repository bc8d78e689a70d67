"""Calls of modules that are nodes, or are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
        original = tracer.shadow.originals.get(id(module), module)
        where = f"module {tracer.path(module)!r} ({type(original).__name__})"
        if id(original) in self.registry.bypassed:
            recipe: Recipe | str | None = BYPASS
        else:
            recipe = self.registry.recipe(original, where) if tracer.depends(args, kwargs) else None
        if recipe is None or not tracer.depends(args, kwargs):
            return NotImplemented
        inputs, states = self.sorted_arguments(tracer, module, original, (args, kwargs), where)
        if not inputs:
            raise NoMeaningError(f"{where}: none of its inputs is a signal")
        if recipe == BYPASS:
            return _left_out(tracer, forward, args, kwargs, inputs, where)
        assert_single(recipe, inputs, where)
        return _noted(tracer, module, forward, args, kwargs, recipe, inputs, states, where)

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
        "edges. Map it to a nir.NIRGraph with an Input for each, named as they are; if one of them is its state, say so: "
        f"to_nir(model, stateful_modules={{{where.rsplit('(', maxsplit=1)[-1].rstrip(')')}: {list(inputs)[-1]!r}}})"
    )


def _ran(tracer: Tracer, forward: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, bool]:
    """The result of a module, and whether it wrote to its input."""
    before = [(tensor, tensor._version) for _, tensor in tensors((args, kwargs))]
    with tracer.unseen():
        result = forward(*args, **kwargs)
    return result, any(tensor._version != version for tensor, version in before)


def _left_out(tracer: Tracer, forward: Any, args: Any, kwargs: Any, inputs: Inputs, where: str) -> Any:
    """A call whose first input goes straight to what its first result goes to."""
    signal, given = next(iter(inputs.values()))
    result, _ = _ran(tracer, forward, args, kwargs)
    changes: dict[Place, Tensor] = {}
    for at, (place, tensor) in enumerate(tensors(result)):
        if at:
            continue
        if tensor.shape != given.shape:
            raise ExportError(
                f"{where}: it can't be left out, since it changes the shape from {tracer.shape(given)} to "
                f"{tracer.shape(tensor)}; map it to a node"
            )
        changes[place] = tensor if tensor is given else tracer.fresh(tensor)
        tracer.bind(changes[place], signal)
    return mapped(result, changes.get)


def _noted(  # noqa: PLR0913, PLR0917  # one call
    tracer: Tracer,
    module: nn.Module,
    forward: Any,
    args: Any,
    kwargs: Any,
    recipe: Any,
    inputs: Inputs,
    states: tuple[int, ...],
    where: str,
) -> Any:
    """A call that is a node: its first tensor is its output, the others its state."""
    result, written = _ran(tracer, forward, args, kwargs)
    found = list(tensors(result))
    if not found:
        raise ExportError(f"{where}: it returned a {type(result).__name__} without a tensor")
    outputs = _outputs(recipe)
    first = items(result)
    inner = items(first[0][1]) if first and outputs else None
    prefix = first[0][0] if first and inner and {key for key, _ in inner} == set(outputs) else None
    gives = tracer.shape(found[0][1])
    op = tracer.emit(tracer.name(module), recipe, inputs, gives, where, module, states)
    guess = next(iter(inputs.values()))[0].guess if _keeps(inputs, found[0][1]) else frozenset()
    changes: dict[Place, Tensor] = {}
    named = {place[0]: place for place, _ in found if place}
    several = len(outputs) > 1
    for at, (place, tensor) in enumerate(found):
        key = None
        if several:
            key = _output_key(place, outputs, named, prefix, at)
        is_output = key in outputs if several else at == 0
        known = tracer.value(tensor) if id(tensor) in tracer.values else None
        same = tensor is found[0][1] and at > 0
        if same:
            changes[place] = changes[found[0][0]]
            continue
        changes[place] = tracer.fresh(tensor) if known is not None and not written else tensor
        if written:
            tracer.overwritten(tensor, where)
        tracer.bind(changes[place], tracer.result(op, key, guess) if is_output else StatePart(op))
    return mapped(result, changes.get)


def _output_key(
    place: Place, outputs: list[str], named: Mapping[str, Place], prefix: str | None, at: int
) -> str | None:
    """Which output of a graph a tensor of a result is: by its key, or else by its number."""
    if prefix is not None:
        return place[1] if place[0] == prefix else None
    if set(outputs) <= set(named):
        return place[0]
    return outputs[at] if at < len(outputs) else None


def _keeps(inputs: Inputs, result: Tensor) -> bool:
    return next(iter(inputs.values()))[1].shape == result.shape


def _outputs(recipe: Any) -> list[str]:
    """The outputs of a graph, by name; none for a node."""
    if isinstance(recipe, Given) and isinstance(recipe.given, nir.NIRGraph):
        return sorted(recipe.given.outputs)
    return []
