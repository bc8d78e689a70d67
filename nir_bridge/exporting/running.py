"""One traced run of a model: inputs go in as signals, and what comes out is given names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.errors import ExportError, NoMeaningError
from nir_bridge.exporting.arguments import is_state_parameter, named_arguments, parameters_of
from nir_bridge.exporting.leafing import Leaves
from nir_bridge.exporting.naming import Names
from nir_bridge.exporting.shadow import devices, shadow_of
from nir_bridge.exporting.starting import shifts_after
from nir_bridge.exporting.trace import Port, Signal, Source, StatePart, Trace
from nir_bridge.exporting.tracer import Tracer
from nir_bridge.exporting.trees import Place, mapped, tensors
from nir_bridge.setting import Setting
from unflatten.assemble import OperatorWatch


@dataclass(frozen=True, slots=True)
class Example:
    """What a model is called with.

    Attributes:
        args, kwargs: the call.
        unknown: the inputs whose shapes are not known at all, by number.
        made_up: whether the inputs are no example of the caller's.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    unknown: frozenset[int] = frozenset()
    made_up: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be exported, and how.

    Attributes:
        model: the model.
        leaves: which modules are nodes.
        setting: what mappers are told.
        batch_dims: how many leading axes are batch axes.
        states: the names of the model's parameters that take a state.
    """

    model: nn.Module
    leaves: Leaves
    setting: Setting
    batch_dims: int
    states: tuple[str, ...]


def state_parameters(model: nn.Module, declared: Any) -> tuple[str, ...]:
    """The parameters of a model's forward that take a state."""
    if declared is not None:
        return tuple(declared) if isinstance(declared, tuple | list | set | frozenset) else (str(declared),)
    return tuple(p.name for at, p in enumerate(parameters_of(model)) if at and is_state_parameter(p))


def run(job: Job, example: Example, make: type[Tracer] = Tracer) -> Trace:
    """Runs a copy of the model, twice where it takes a state, and notes the second run.

    Raises:
        NIRBridgeError: the model can't be exported.
    """
    tracer, result = _run(job, example, make, None)
    state = _state_of(job, result)
    if state is not None and any(isinstance(tracer.value(t), Signal) for _, t in tensors(state)):
        before = {place: tracer.value(tensor) for place, tensor in tensors(state)}
        first = tracer.trace
        tracer, result = _run(job, example, make, (state, before))
        state = _state_of(job, result)
        for place, tensor in tensors(state):
            value = tracer.value(tensor)
            if isinstance(value, Signal):
                signal = Signal(tracer.terms(value, tensor), 0)
                tracer.trace.feedback[place] = signal
        tracer.trace.shifts = shifts_after(first, tracer.trace)
    _leave(tracer, result, state)
    return tracer.trace


def _run(job: Job, example: Example, make: type[Tracer], given: Any) -> tuple[Tracer, Any]:
    # Tensors of inference mode don't tell whether they were written to, and compiled code is not seen.
    with torch.inference_mode(False), torch.compiler.set_stance("force_eager"):
        return _noted(job, example, make, given)


def _noted(job: Job, example: Example, make: type[Tracer], given: Any) -> tuple[Tracer, Any]:
    shadow = shadow_of(job.model)
    tracer = make(shadow, job.leaves, job.setting, job.batch_dims)
    args, kwargs = _fresh(example.args), {key: _fresh(value) for key, value in example.kwargs.items()}
    named = named_arguments(job.model, args, kwargs)
    _enter(tracer, named, job.states, example.unknown)
    if given is not None:
        kwargs, args = _with_state(tracer, job, (args, kwargs), given)
    tracer.watch()
    with torch.no_grad(), torch.random.fork_rng(devices=devices(job.model)), tracer, OperatorWatch(tracer.operator):
        try:
            return tracer, shadow.model(*args, **kwargs)
        except RecursionError:
            raise
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, KeyError) as error:
            raise _failure(error, example) from error


def _failure(error: Exception, example: Example) -> Exception:
    if isinstance(error, ExportError | NoMeaningError) or type(error).__module__.startswith("nir_bridge"):
        return error
    shown = f"{type(error).__name__}: {error}"
    if example.made_up:
        return ExportError(
            f"the model can't be run with inputs made up for it: {shown}. Give to_nir an example: "
            "to_nir(model, args=(x,))"
        )
    return ExportError(f"the model can't be run with these arguments: {shown}")


def _fresh(value: Any) -> Any:
    """Arguments with tensors of their own."""
    return mapped(value, lambda _, leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf)


def _enter(tracer: Tracer, named: Mapping[str, Any], states: tuple[str, ...], unknown: frozenset[int]) -> None:
    """Makes signals of the inputs, one Input node each."""
    region, names, count = tracer.trace.regions[0], Names(), 0
    for name, value in named.items():
        if name in states:
            continue
        for place, tensor in tensors(value):
            if not (tensor.is_floating_point() or tensor.dtype in (torch.bool, torch.int64, torch.int32, torch.uint8)):
                raise NoMeaningError(f"input {name!r} is of type {tensor.dtype}; signals are real numbers")
            label = names.unique(".".join((name, *place)))
            region.ports[label] = Port(label, (), tracer.shape(tensor))
            guess = frozenset((count,)) if count in unknown else frozenset()
            tracer.bind(tensor, Signal((Source("port", 0, label),), 0, guess))
            count += 1
    if not count:
        raise ExportError("the model takes no tensor, so there is nothing for an Input node to be")


def _state_of(job: Job, result: Any) -> Any:
    """The part of a result that is the next state: what comes last, as many as there are parameters for it."""
    if not job.states or not isinstance(result, tuple | list) or len(result) < 2:
        return None
    return result[-1] if len(job.states) == 1 else tuple(result[-min(len(job.states), len(result) - 1) :])


def _with_state(
    tracer: Tracer, job: Job, called: tuple[Any, Any], given: Any
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """A call with a state, its tensors known as values of the step before."""
    state, before = given
    args, kwargs = called

    def renewed(place: Place, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        tensor = leaf.detach().clone()
        value = before.get(place)
        if isinstance(value, Signal):
            tracer.bind(tensor, Signal((Source("previous", 0, place),), 0))
        elif isinstance(value, StatePart):
            tracer.bind(tensor, StatePart(-1))
        return tensor

    renewed_state = mapped(state, renewed)
    named = dict(named_arguments(job.model, args, kwargs))
    values = (renewed_state,) if len(job.states) == 1 else renewed_state
    named.update(zip(job.states[-len(values) :], values, strict=True))
    return named, ()


def _leave(tracer: Tracer, result: Any, state: Any) -> None:
    """Notes what comes out: one Output node each."""
    region, names = tracer.trace.regions[0], Names()
    parts = {id(tensor) for _, tensor in tensors(state)} if state is not None else set()
    found = list(tensors(result if state is None else _without(result, state)))
    signals: list[tuple[Place, Tensor, Signal]] = []
    for place, tensor in found:
        value = tracer.value(tensor)
        if isinstance(value, Signal):
            signals.append((place, tensor, value))
        elif value is None and id(tensor) not in parts:
            raise NoMeaningError(
                f"output {'.'.join(place) or '0'} of the model does not depend on its inputs, or does so in a way that "
                "torch does not show; NIR has no constants. Leave it out of what forward returns"
            )
    if not signals:
        raise NoMeaningError("the model returns no signal; in NIR an Output carries the output of a node")
    sums = [tracer.terms(signal, tensor) for _, tensor, signal in signals]
    region.outs.clear()
    for at, (place, tensor, _) in enumerate(signals):
        if len(signals) == 1:
            name = "output"
        else:
            name = _output_name(tracer.trace, place, sums[at])
        region.outs[at] = Port(names.unique(name), sums[at], tracer.shape(tensor))


def _without(result: Any, state: Any) -> Any:
    """A result without the state at its end."""
    count = len(state) if isinstance(state, tuple) and result[-1] is not state else 1
    rest = tuple(result[:-count])
    return rest[0] if len(rest) == 1 else rest


def _output_name(trace: Trace, place: Place, terms: tuple[Source, ...]) -> str:
    """The name of one of several outputs: its key, or that of the module that gives it."""
    keys = [part for part in place if not part.isdigit()]
    if keys:
        return ".".join(place)
    if len(terms) == 1 and terms[0].kind == "op":
        return f"{'.'.join(trace.ops[terms[0].at].name)}_output"
    if len(terms) == 1 and terms[0].kind == "out":
        return f"{'.'.join(trace.regions[terms[0].at].name)}_output"
    return f"output_{'_'.join(place)}"
