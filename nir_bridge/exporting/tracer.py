"""Runs a model and notes every call of a module and every function of torch on values that depend on the inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nir_bridge.errors import ExportError, NoMeaningError
from nir_bridge.exporting.arguments import named_arguments
from nir_bridge.exporting.calls import Call
from nir_bridge.exporting.functions import FUNCTIONS, RANDOM, called_name, unsupported
from nir_bridge.exporting.recipes import Recipe
from nir_bridge.exporting.shadow import Shadow
from nir_bridge.exporting.trace import Op, Port, Region, Signal, Source, StatePart, Terms, Trace, Value
from nir_bridge.exporting.trees import Place, tensors
from nir_bridge.fields import Shape
from nir_bridge.setting import Setting

LeafCall = Callable[["Tracer", nn.Module, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class Tracer(TorchFunctionMode):
    """One run.

    Args:
        shadow: the copy that runs.
        leaf: what to do with the call of a module; NotImplemented to look inside it.
        setting: what mappers are told.
        batch_dims: how many leading axes of a tensor are batch axes.
    """

    def __init__(self, shadow: Shadow, leaf: LeafCall, setting: Setting, batch_dims: int) -> None:
        super().__init__()
        self.shadow = shadow
        self.leaf = leaf
        self.setting = setting
        self.batch_dims = batch_dims
        self.trace = Trace([Region(0, None, (), "", shadow.model)])
        self.region = self.trace.regions[0]
        self.values: dict[int, tuple[Tensor, Value]] = {}
        self.stale: dict[int, str] = {}
        self.kept: list[Tensor] = []  # so that no identity is given twice
        self.opaque = 0
        self.shown = 0
        self.random: dict[int, Tensor] = {}

    # Values

    def value(self, tensor: Any) -> Value | None:
        """What a tensor carries; None for a constant.

        Raises:
            ExportError: it was written over through another tensor that shares its memory.
        """
        if not isinstance(tensor, Tensor) or id(tensor) not in self.values:
            return None
        if id(tensor) in self.stale:
            raise ExportError(
                f"{self.here()}: a tensor is used after {self.stale[id(tensor)]} wrote to another one that shares its "
                "memory; write the operation so that it makes a new tensor"
            )
        return self.values[id(tensor)][1]

    def bind(self, tensor: Tensor, value: Value) -> None:
        """Notes what a tensor carries."""
        self.values[id(tensor)] = (tensor, value)
        self.stale.pop(id(tensor), None)

    def shape(self, tensor: Tensor) -> Shape:
        """The batch-less shape."""
        return tuple(tensor.shape[self.batch_dims :])

    def here(self) -> str:
        """The region that runs, as messages name it."""
        region = self.region
        return f"module {region.path!r} ({type(region.module).__name__})" if region.path else "the model's forward"

    def terms(self, signal: Signal, tensor: Tensor) -> Terms:
        """A signal's sum as the region that runs sees it: carried in, or out, over the edges of regions."""
        chain = list(self.around(self.region.number))
        terms, at = signal.terms, signal.region
        while at not in chain:
            region = self.trace.regions[at]
            terms = (self.crossing("out", region, terms, tensor),)
            at = 0 if region.parent is None else region.parent
        for number in reversed(chain[: chain.index(at)]):
            terms = (self.crossing("port", self.trace.regions[number], terms, tensor),)
        return terms

    def around(self, region: int) -> Iterator[int]:
        """A region and those around it, outwards."""
        at: int | None = region
        while at is not None:
            yield at
            at = self.trace.regions[at].parent

    def crossing(self, kind: str, region: Region, terms: Terms, tensor: Tensor) -> Source:
        """The port or output of a region that carries a sum."""
        table, names = (region.ports, region.arguments) if kind == "port" else (region.outs, region.results)
        key = self.trace.key(terms)
        if key not in table:
            default = "input" if kind == "port" else "output"
            table[key] = Port(names.get(id(tensor), default), terms, self.shape(tensor))
        return Source(kind, region.number, key)

    # Recording

    def emit(
        self,
        name: Place,
        recipe: Recipe,
        inputs: Mapping[str, tuple[Signal, Tensor]],
        gives: Shape | None,
        where: str,
        module: nn.Module | None = None,
        states: tuple[int, ...] = (),
    ) -> int:
        """Notes an operation and returns its number."""
        found = {key: self.terms(signal, tensor) for key, (signal, tensor) in inputs.items()}
        first = next((self.shape(tensor) for _, tensor in inputs.values()), None)
        op = Op(self.region.number, name, recipe, found, first, gives, where, module, states)
        self.trace.ops.append(op)
        number = len(self.trace.ops) - 1
        self.trace.events.append(("op", number))
        return number

    def result(self, op: int, key: Any = None, guess: frozenset[int] = frozenset()) -> Signal:
        """The signal that an operation gives."""
        return Signal((Source("op", op, key),), self.region.number, guess)

    # Functions

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A function of torch."""
        kwargs = kwargs or {}
        if self.opaque:
            return func(*args, **kwargs)
        name = called_name(func)
        if not self.depends(args, kwargs):
            return self.constant(func, name, args, kwargs)
        rule = FUNCTIONS.get(name)
        if rule is None:
            raise unsupported(name, self.here(), self.region.path, type(self.region.module).__name__)
        self.before(name, args, kwargs)
        before = [(tensor, tensor._version) for _, tensor in tensors((args, kwargs))]
        found = [self.value(tensor) for tensor, _ in before]
        if any(isinstance(value, StatePart) for value in found) and not rule.keeps_state:
            raise NoMeaningError(
                f"{self.here()}: {name} uses the state of a module as a signal. In NIR a node gives only its output; "
                "use what the module returns first, or export the model without this part"
            )
        with self.showing():
            result = self.constant(func, name, args, kwargs)
        written = next((tensor for tensor, version in before if tensor._version != version), None)
        value = rule.apply(Call(self, name, args, kwargs, result))
        return self.returned(result, value, written, name)

    def constant(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Calls a function; notes whether its result is random."""
        before = torch.get_rng_state() if name in RANDOM else None
        result = func(*args, **kwargs)
        is_random = before is not None and not torch.equal(before, torch.get_rng_state())
        if is_random or (self.random and any(id(tensor) in self.random for _, tensor in tensors((args, kwargs)))):
            self.random.update({id(tensor): tensor for _, tensor in tensors(result)})
        return result

    def is_random(self, value: Any) -> bool:
        """Whether a constant was drawn at random."""
        return id(value) in self.random

    @contextmanager
    def showing(self) -> Iterator[None]:
        """What happens inside belongs to a function of torch that is noted."""
        self.shown += 1
        try:
            yield
        finally:
            self.shown -= 1

    def operator(self, name: str, args: Any, kwargs: Any) -> None:
        """An operator runs.

        Raises:
            NoMeaningError: it is on a signal, and no function of torch shows it.
        """
        if not self.shown and not self.opaque and self.depends(args, kwargs):
            raise NoMeaningError(
                f"{self.here()}: operator {name} is called on a signal by something that can't be looked into: "
                "torch.vmap, a scripted function, or an extension. Call torch's functions themselves, or map the "
                "module to a node: to_nir(model, {type: mapper})"
            )

    def depends(self, args: Any, kwargs: Any) -> bool:
        """Whether any of the arguments depends on the inputs."""
        return any(id(tensor) in self.values for _, tensor in tensors((args, kwargs)))

    def returned(self, result: Any, value: Any, written: Tensor | None, name: str) -> Any:
        """Binds the result of a function to what it carries."""
        if value is None:
            return result
        if isinstance(value, list):
            for tensor, each in zip(result, value, strict=True):
                if each is not None:
                    self.bind(tensor, each)
            return result
        if written is not None:
            self.overwritten(written, name)
            self.bind(written, value)
            if result is written:
                return result
        if id(result) in self.values and self.values[id(result)][1] != value:
            result = self.fresh(result)
        self.bind(result, value)
        return result

    def fresh(self, tensor: Tensor) -> Tensor:
        """Another tensor with the same memory."""
        with self.unseen():
            return tensor.view_as(tensor)

    def overwritten(self, written: Tensor, name: str) -> None:
        """Marks the other tensors whose memory was written to."""
        place = written.untyped_storage().data_ptr()
        for number, (tensor, _) in self.values.items():
            if number != id(written) and tensor.untyped_storage().data_ptr() == place:
                self.stale[number] = f"{name} in {self.here()}"

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What happens inside is not noted."""
        self.opaque += 1
        try:
            yield
        finally:
            self.opaque -= 1

    def before(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A function is about to be called; hook for runs that find out shapes."""

    def agree(self, left: Tensor, right: Tensor) -> None:
        """Two signals are added; hook for runs that find out shapes."""

    def learn(self, tensor: Tensor, other: Any) -> None:
        """A signal meets a constant; hook for runs that find out shapes."""

    # Modules

    def watch(self) -> None:
        """Puts the tracer in front of the forward of every module of the copy."""
        for module in self.shadow.model.modules():
            inner = module.forward
            module.__dict__["forward"] = functools.wraps(inner)(functools.partial(self.forwarded, module, inner))

    def forwarded(self, module: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A call of a module's forward."""
        if self.opaque:
            return forward(*args, **kwargs)
        found = self.leaf(self, module, forward, args, kwargs)
        if found is not NotImplemented:
            return found
        if module is self.shadow.model or not self.depends(args, kwargs):
            return forward(*args, **kwargs)
        return self.inside(module, forward, args, kwargs)

    def inside(self, module: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Looks inside a call."""
        outer = self.region
        region = Region(len(self.trace.regions), outer.number, self.name(module), self.path(module), module)
        self.trace.regions.append(region)
        self.trace.events.append(("region", region.number))
        for name, value in named_arguments(module, args, kwargs).items():
            for place, tensor in tensors(value):
                region.arguments.setdefault(id(tensor), ".".join((name, *place)))
                self.kept.append(tensor)
        self.region = region
        try:
            result = forward(*args, **kwargs)
        finally:
            self.region = outer
        for place, tensor in tensors(result):
            region.results.setdefault(id(tensor), ".".join(place) or "output")
            self.kept.append(tensor)
        return result

    def name(self, module: nn.Module) -> Place:
        """What a module is called where it is called."""
        for number in self.around(self.region.number):
            own = self.shadow.paths.get(id(self.trace.regions[number].module), ())
            path = self.shadow.paths.get(id(module), (type(module).__name__,))
            if path[: len(own)] == own and len(path) > len(own):
                return path[len(own) :]
        return self.shadow.paths.get(id(module)) or (type(module).__name__.lower(),)

    def path(self, module: nn.Module) -> str:
        """Where a module is, as messages show it."""
        return ".".join(self.shadow.paths.get(id(module), (type(module).__name__,)))

    def where(self, module: nn.Module, original: nn.Module) -> str:
        """A module, as messages name it."""
        path, kind = self.path(module), type(original).__name__
        return f"module {path!r} ({kind})" if path else f"the model ({kind})"
