"""What a network is called with: inputs by position or name, and a state, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import SymInt, Tensor, nn

from nir_bridge.errors import CallError, ShapeError, StateError
from nir_bridge.plan import Feedback, Part, Plan, Port
from nir_bridge.primitives.delay import Delay
from nir_bridge.primitives.neuron import Neuron
from nir_bridge.state import State
from unflatten.errors import listing

PLAN = "@nir"


def admit(plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], State | None]:
    """The inputs in order, and the state.

    Raises:
        CallError: inputs are missing, too many, or no tensors.
        ShapeError: one has the wrong shape.
    """
    ports = plan.ports
    if len(args) == len(ports) and not kwargs:
        inputs, state = list(args), None
    elif len(args) == len(ports) + 1 and not kwargs and plan.stateful:
        inputs, state = list(args[:-1]), args[-1]
    else:
        inputs, state = _bound(plan, args, dict(kwargs))
    if state is not None and not isinstance(state, State):
        raise StateError(f"the state is a {type(state).__name__}; give what the last step returned, or None")
    for port, value in zip(ports, inputs, strict=True):
        _check(port, value)
    return inputs, state


def _check(port: Port, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise CallError(f"input {port.name!r} is a {type(value).__name__}; a tensor is needed")
    shape = port.shape
    if shape is not None and value.shape[max(value.dim() - len(shape), 0) :] != shape:
        raise ShapeError(
            f"input {port.name!r} has shape {tuple(value.shape)}; it has to end in {shape}, after any batch axes"
        )


def _bound(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], State | None]:
    """Arguments by position and name."""
    ports, state = plan.ports, None
    if plan.stateful and args and (isinstance(args[-1], State) or (args[-1] is None and len(args) > 1)):
        state, args = args[-1], args[:-1]
    named = {port.name for port in ports} | {port.parameter for port in ports}
    if "state" in kwargs and plan.stateful and (state is None) and ("state" not in named or len(kwargs) > len(ports)):
        state = kwargs.pop("state")
    certain = [port for port in ports if not port.optional]
    places = certain if len(args) == len(certain) < len(ports) else list(ports)
    found = dict(zip((port.name for port in places), args, strict=False))
    known = {port.parameter: port.name for port in ports} | {port.name: port.name for port in ports}
    problems = [f"{len(args)} inputs were given, there are {len(places)}"] if len(args) > len(places) else []
    for name, value in kwargs.items():
        if name not in known or known[name] in found:
            problems.append(f"there is no input {name!r}" if name not in known else f"input {name!r} is given twice")
        else:
            found[known[name]] = value
    like = next((value for value in found.values() if isinstance(value, Tensor)), None)
    for port in ports:
        if port.name not in found and port.optional and like is not None:
            found[port.name] = _silent(plan, port, found, like)
    problems += [f"input {port.name!r} is missing" for port in ports if port.name not in found]
    if problems:
        names = ", ".join(repr(port.name) for port in ports)
        raise CallError(f"can't call with these arguments:\n{listing(problems)}\nInputs are {names}, in this order.")
    return [found[port.name] for port in ports], state


def _silent(plan: Plan, port: Port, found: Mapping[str, Any], like: Tensor) -> Tensor:
    """Zeros for an input that was left out."""
    given = [port for port in plan.ports if isinstance(found.get(port.name), Tensor)]
    batch = batch_of_one(given[0], found[given[0].name]) or ()
    return like.new_zeros((*batch, *(port.shape or ())))


def batch_of_one(port: Port, value: Tensor) -> tuple[int, ...] | None:
    """The batch axes of an input; None where its shape is not known."""
    return None if port.shape is None else tuple(value.shape[: value.dim() - len(port.shape)])


def batch_of(plan: Plan, inputs: Sequence[Tensor]) -> tuple[int, ...] | None:
    """The batch axes of a call; None where no input tells.

    Raises:
        ShapeError: inputs differ in them.
    """
    first: tuple[str, tuple[int, ...]] | None = None
    for port, value in zip(plan.ports, inputs, strict=True):
        batch = batch_of_one(port, value)
        if batch is None:
            continue
        if first is not None and first[1] != batch:
            raise ShapeError(f"inputs differ in their batch axes: {first[1]} of {first[0]!r}, {batch} of {port.name!r}")
        first = first or (port.name, batch)
    return None if first is None else first[1]


def check_batch(shape: Any) -> None:
    """Checks what is to be the shape of a batch.

    Raises:
        CallError: it is no sequence of whole numbers.
    """
    sizes = shape if isinstance(shape, Sequence) and not isinstance(shape, str | bytes) else (None,)
    if not all(isinstance(size, int) and size >= 0 for size in sizes) and not is_traced(sizes):
        raise CallError(f"batch_shape is {shape!r}; the sizes of the batch axes are needed, e.g. (32,)")


def is_traced(sizes: Sequence[Any]) -> bool:
    """Whether sizes stand for numbers that are only known when a program runs."""
    return all(isinstance(size, int | SymInt) for size in sizes)


def check_state(module: nn.Module, state: State, batch: tuple[int, ...] | None) -> None:
    """Compares a state with the module that it is given to.

    Raises:
        StateError: parts are missing, unknown, or of another shape.
    """
    problems = list(_problems(module, state, batch, ""))
    if problems:
        raise StateError(
            f"this is no state of the network:\n{listing(problems)}\nPass on what a step returned, or start with None "
            f"or net.initial_state({batch or ()})."
        )


def _problems(module: nn.Module, state: Any, batch: tuple[int, ...] | None, path: str) -> Iterator[str]:
    plan: Plan | None = module.__dict__.get(PLAN)
    if plan is not None:
        yield from _group_problems(module, plan, state, batch, path)
    elif isinstance(module, Neuron | Delay):
        names = module.parts if isinstance(module, Neuron) else ("past",)
        if not isinstance(state, State) or (tuple(state) != names and set(state) != set(names)):
            yield f"{path or 'the state'} has to have the parts {', '.join(names)}"
            return
        for name in names:
            yield from _tensor_problems(state[name], _wanted(module, batch), f"{path}.{name}" if path else name)


def _wanted(module: Neuron | Delay, batch: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if batch is None or not module.shape:
        return None
    return (*batch, module.longest, *module.shape) if isinstance(module, Delay) else (*batch, *module.shape)


def _tensor_problems(value: Any, shape: tuple[int, ...] | None, path: str) -> Iterator[str]:
    if not isinstance(value, Tensor):
        yield f"{path} is a {type(value).__name__}, not a tensor"
    elif shape is not None and tuple(value.shape) != shape:
        yield f"{path} has shape {tuple(value.shape)}, not {shape}"


def _group_problems(
    module: nn.Module, plan: Plan, state: Any, batch: tuple[int, ...] | None, path: str
) -> Iterator[str]:
    if not isinstance(state, State):
        yield f"{path or 'the state'} is a {type(state).__name__}, not a State"
        return
    known: dict[tuple[str, ...], Any] = {}
    places: tuple[Part | Feedback, ...] = (*plan.parts, *plan.feedback)
    for place in places:
        value, full = _part(state, place.path), ".".join(filter(None, (path, *place.path)))
        known[place.path] = value
        if value is _MISSING:
            yield f"{full} is missing"
        elif isinstance(place, Feedback):
            yield from _tensor_problems(value, None if batch is None else (*batch, *place.shape), full)
        else:
            child = module
            for name in place.path:
                child = child._modules[name]  # type: ignore[assignment]
            yield from _problems(child, value, batch, full)
    extra = set(state) - {place[0] for place in known}
    yield from (f"{name!r} is no part of {path or 'the network'}" for name in sorted(extra))


_MISSING = object()


def _part(state: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(state, State) or name not in set(state):
            return _MISSING
        state = state[name]
    return state
