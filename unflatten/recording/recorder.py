"""Hooks that write down every module call while torch traces a model.

The hooks see what the caller wrote. Values of the graph are told by the nodes that the tracer gives them, and
these nodes are numbered in their metadata. Where a call returns a tensor that it was given, or that its module
holds, the hook puts a view of the whole tensor in its place: the graph then shows which of its later uses take
what the call returned.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from unflatten import _torch
from unflatten.calls.known import BODY
from unflatten.recording.encoding import Encoder
from unflatten.recording.record import RecordedCall, number_value, tag
from unflatten.recording.tracing import Tracing

_ROOT = "_export_root"


@dataclass(slots=True)
class _Open:
    """A call that has begun.

    Attributes:
        number: its place among the calls.
        held: the containers among its arguments.
        last: the last node before it.
    """

    number: int
    held: frozenset[int]
    last: fx.Node


@dataclass(slots=True)
class Recorder:
    """Records the calls of the last tracing that it saw.

    Attributes:
        calls: the calls, in the order in which they began.
        numbers: the numbers of the nodes of tensors that they took and gave.
        sizes: likewise sizes, and other numbers that may vary, with theirs.
        count: the last number.
        constants: likewise tensors that the graph did not have when they were passed.
    """

    calls: list[RecordedCall | None] = field(default_factory=list)
    numbers: dict[fx.Node, int] = field(default_factory=dict)
    sizes: list[tuple[int, Any]] = field(default_factory=list)
    constants: list[tuple[int, torch.Tensor]] = field(default_factory=list)
    count: int = 0
    _open: list[_Open] = field(default_factory=list)
    _tracer: Any = None

    @contextmanager
    def listen(self, model: nn.Module) -> Iterator[None]:
        """Hooks every module of a model, and takes the hooks away again."""
        hooks = []
        try:
            for module in model.modules():
                if module is not model:
                    hooks.append(module.register_forward_pre_hook(self._begin, prepend=True, with_kwargs=True))
                    hooks.append(module.register_forward_hook(self._end, with_kwargs=True, always_call=True))
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_dynamo_compiling():
            return
        tracing = self._tracing()
        if tracing is None:
            return
        key, path = tracing.call()
        outer = self._open[-1].number if self._open else -1
        kwargs = {name: value for name, value in kwargs.items() if name != BODY}  # of an unflattened model
        arguments = Encoder(lambda value: self._number(tracing, value)).encode((args, kwargs))
        count = key.removeprefix(path).removeprefix("@")
        index = int(count) if count.isdigit() else 0
        names = tuple(_names(module, args))
        call = RecordedCall(path.removeprefix(_ROOT).lstrip("."), index, outer, arguments, None, names)
        self._open.append(_Open(len(self.calls), frozenset(_containers((args, kwargs))), tracing.last()))
        self.calls.append(call)

    def _end(self, _module: nn.Module, _args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return None
        tracing = self._tracing()
        if tracing is None or not self._open:
            return None
        call = self._open.pop()
        marked = self._mark(tracing, result, call)
        encoded = Encoder(lambda value: self._number(tracing, value)).encode(marked)
        begun = self.calls[call.number]
        if begun is not None:
            self.calls[call.number] = RecordedCall(
                begun.path, begun.index, begun.outer, begun.arguments, encoded, begun.names
            )
        return marked

    def _tracing(self) -> Tracing | None:
        """The tracing that goes on; a new one starts the record anew."""
        tracing = Tracing.now()
        if tracing is not None and tracing.tracer is not self._tracer:
            self._tracer = tracing.tracer
            self.calls.clear()
            self.numbers.clear()
            self.sizes.clear()
            self.constants.clear()
            self._open.clear()
        return tracing

    def _number(self, tracing: Tracing, value: Any) -> int | None:
        if not isinstance(value, torch.Tensor):
            self.sizes.append((self._next(), value))
            return self.count
        node = tracing.node(value)
        if node is None:
            self.constants.append((self._next(), value))
            return self.count
        if node not in self.numbers:
            self.numbers[node] = self._next()
            number_value(node, self.count)
        return self.numbers[node]

    def _next(self) -> int:
        self.count += 1
        return self.count

    def _mark(self, tracing: Tracing, result: Any, call: _Open) -> Any:
        """The result, with a view in place of every tensor that the call did not compute."""
        if isinstance(result, torch.Tensor):
            node = tracing.node(result)
            if node is None or type(result) in _UNVIEWABLE or call.last < node:
                return result
            view = torch.ops.aten.alias.default(result)
            made = tracing.node(view)
            if made is not None:
                tag(made, through=True)
            return view
        level = _torch.flatten_one_level(result)
        if level is None:
            return result
        _, _, items = level
        marked = [self._mark(tracing, item, call) for item in items]
        if all(a is b for a, b in zip(items, marked, strict=True)):
            return result
        return _refilled(result, marked) if id(result) in call.held else _torch.rebuild_one_level(result, marked)


def _refilled(container: Any, items: list[Any]) -> Any:
    """A container that others have too, with other items; one of tuples can't be told from a new one."""
    if type(container) is list:
        container[:] = items
    elif type(container) is dict:
        container.update(zip(container, items, strict=True))
    elif isinstance(container, tuple):
        return _torch.rebuild_one_level(container, items)
    return container


_UNVIEWABLE = (torch.nn.Parameter,)
"""Whoever gets a parameter may ask for its class."""


def _containers(value: Any) -> Iterator[int]:
    level = _torch.flatten_one_level(value)
    if level is not None:
        yield id(value)
        for item in level[2]:
            yield from _containers(item)


def _names(module: nn.Module, args: tuple[Any, ...]) -> Iterator[str]:
    """The names of the parameters that positional arguments go to; `*args` gives `args_0`, `args_1`."""
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    kinds = inspect.Parameter
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is kinds.VAR_POSITIONAL), "arg")
    for at in range(len(args)):
        yield positional[at].name if at < len(positional) else f"{rest}_{at - len(positional)}"
