"""Runs without an example: shapes of inputs are found out from what the model does with them.

A run starts with made-up inputs. Where one of unknown shape meets something that says what its shape is, a layer or
another value, the run starts anew with that shape. What nothing says, sizes of images above all, is made up twice, and
every shape that differs between the two runs is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nir_bridge.errors import ExportError
from nir_bridge.exporting.arguments import parameters_of
from nir_bridge.exporting.leafing import Leaves
from nir_bridge.exporting.modules.torch_nn import Taken
from nir_bridge.exporting.running import Example, Job, run
from nir_bridge.exporting.trace import Port, Signal, Trace
from nir_bridge.exporting.tracer import Tracer
from nir_bridge.exporting.trees import tensors
from nir_bridge.fields import Shape

_BATCH = 2
_SIZES = (68, 84)
"""What unknown sizes are taken for, one after the other: large enough for a few convolutions."""


class Learned(BaseException):
    """The shape of some inputs was found out. No Exception, so that no model catches it."""

    def __init__(self, inputs: frozenset[int], shape: Taken) -> None:
        super().__init__()
        self.inputs = inputs
        self.shape = shape


class ProbingTracer(Tracer):
    """A run that ends where the shape of an input is found out."""

    def forwarded(self, module: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A call of a module's forward."""
        if not self.opaque and isinstance(self.leaf, Leaves):
            guess = self.guess((args, kwargs))
            original = self.shadow.originals.get(id(module), module)
            taken = self.leaf.registry.takes(original) if guess else None
            if taken is not None:
                raise Learned(guess, taken)
        return super().forwarded(module, forward, *args, **kwargs)

    def guess(self, value: Any) -> frozenset[int]:
        """The inputs of unknown shape that have the shape of the first tensor."""
        for _, tensor in tensors(value):
            found = self.value(tensor)
            if isinstance(found, Signal):
                return found.guess
        return frozenset()

    def before(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A function is about to be called."""
        guess = self.guess(args[:1] or tuple(kwargs.values())[:1])
        weight = args[1] if len(args) > 1 else kwargs.get("weight")
        if not guess or not isinstance(weight, Tensor):
            return
        if name == "linear":
            raise Learned(guess, (weight.shape[-1],))
        if name in ("conv1d", "conv2d"):
            groups = args[6] if len(args) > 6 else kwargs.get("groups", 1)
            raise Learned(guess, (weight.shape[1] * groups, *[None] * (weight.dim() - 2)))
        if name in ("matmul", "__matmul__", "mm") and weight.dim() == 2:
            raise Learned(guess, (weight.shape[0],))

    def agree(self, left: Tensor, right: Tensor) -> None:
        """Two signals are added: they have the same shape."""
        first, second = self.guess(left), self.guess(right)
        if bool(first) != bool(second):
            known = right if first else left
            raise Learned(first or second, self.shape(known))

    def learn(self, tensor: Tensor, other: Any) -> None:
        """A signal meets a constant: it has its shape, if that has one."""
        guess = self.guess(tensor)
        if guess and isinstance(other, Tensor) and other.dim() and other.numel() > 1:
            shape = tuple(other.shape)
            raise Learned(guess, shape[1:] if shape[0] == 1 and len(shape) > 1 else shape)


def guessed_run(job: Job) -> Trace:
    """A run with inputs made up.

    Raises:
        ExportError: the model needs an example.
    """
    wanted = [p for p in parameters_of(job.model) if p.kind is not p.VAR_KEYWORD]
    names = [p.name for p in wanted if p.name not in job.states and (p.default is p.empty)]
    shapes: dict[int, Taken] = {}
    for _ in range(3 * len(names) + 3):
        try:
            trace = run(job, _example(job, names, shapes, 1), ProbingTracer)
            break
        except Learned as found:
            shapes.update(dict.fromkeys(found.inputs, found.shape))
    else:
        raise ExportError("what the model says of the shapes of its inputs is not the same everywhere; give args")
    if all(at in shapes and None not in shapes[at] for at in range(len(names))):
        return trace
    first, second = (run(job, _example(job, names, shapes, size)) for size in _SIZES)
    return _merged(first, second)


def _example(job: Job, names: list[str], shapes: dict[int, Taken], size: int) -> Example:
    like = next((p for p in job.model.parameters() if p.is_floating_point()), torch.empty(0))
    batch = (_BATCH,) * job.batch_dims
    kwargs: dict[str, Any] = {}
    for at, name in enumerate(names):
        shape = [each or max(size, _SIZES[0]) for each in shapes[at]] if at in shapes else [size]
        full = (*batch, *shape)  # values differ, so that what depends on them can't pass for a constant
        values = torch.linspace(0.5, 1.5, math.prod(full)).reshape(full)
        kwargs[name] = values.to(dtype=like.dtype, device=like.device)
    unknown = frozenset(at for at in range(len(names)) if at not in shapes)
    named = {p.name for p in parameters_of(job.model) if p.kind is p.KEYWORD_ONLY}
    args = tuple(value for name, value in kwargs.items() if name not in named)
    return Example(args, {name: value for name, value in kwargs.items() if name in named}, unknown, made_up=True)


def _merged(first: Trace, second: Trace) -> Trace:
    """One of two runs, with the shapes that both have."""
    same = len(first.ops) == len(second.ops) and len(first.regions) == len(second.regions)
    if not same or any(a.name != b.name or a.inputs != b.inputs for a, b in zip(first.ops, second.ops, strict=True)):
        raise ExportError("what the model does depends on the size of its input; give to_nir an example: args=(x,)")
    for at, (one, other) in enumerate(zip(first.ops, second.ops, strict=True)):
        first.ops[at] = replace(one, takes=_both(one.takes, other.takes), gives=_both(one.gives, other.gives))
    for region, also in zip(first.regions, second.regions, strict=True):
        for mine, theirs in ((region.ports, also.ports), (region.outs, also.outs)):
            for key, port in mine.items():
                found: Port = theirs[key]
                port.shape = _both(port.shape, found.shape)
    return first


def _both(first: Shape | None, second: Shape | None) -> Shape | None:
    return first if first == second else None
