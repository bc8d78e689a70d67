"""Writing down which module call makes a node, for captures that leave no stacks.

Hooks of modules do it, so that no `forward` is wrapped and captures that do leave stacks still leave the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from unflatten import _torch
from unflatten.paths import ModuleCall, ModulePath
from unflatten.view.origins import KEY, write_origin
from unflatten.view.values import Phase


@contextmanager
def record(model: nn.Module) -> Iterator[None]:
    """Records the module calls of whatever is traced inside: `make_fx`, joint graphs, exports.

    A `GraphView` of the graph then knows the calls, and by way of them the backward. The record is in the metadata of
    the nodes.

    Example:
        >>> import torch
        >>> from torch.fx.experimental.proxy_tensor import make_fx
        >>> from unflatten import GraphView, record
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        >>> with record(model):
        ...     module = make_fx(model)(torch.ones(1, 2))
        >>> [node.name for node in GraphView(module)["1"].nodes]
        ['relu', 'detach']
    """
    recorder = _Recorder()
    hooks: list[Any] = []
    try:
        for path, module in model.named_modules():
            call = ModulePath.parse(path)
            hooks.append(module.register_forward_pre_hook(recorder.enter(call), prepend=True))
            hooks.append(module.register_forward_hook(recorder.leave, always_call=True))
        yield
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(slots=True)
class _Open:
    """A call that has begun: what it is, in which graph, after which node."""

    call: ModuleCall
    graph: fx.Graph | None
    last: fx.Node | None


@dataclass(slots=True)
class _Recorder:
    open: list[_Open] = field(default_factory=list)
    counts: Counter[tuple[fx.Graph | None, ModulePath, bool]] = field(default_factory=Counter)

    def enter(self, path: ModulePath) -> Callable[[nn.Module, Any], None]:
        """The hook for the start of a call."""

        def hook(module: nn.Module, _args: Any) -> None:
            if torch.compiler.is_dynamo_compiling():
                return
            graph, again = _torch.traced_graph(), _torch.in_backward()
            count = self.counts[graph, path, again]
            self.counts[graph, path, again] += 1
            if again:  # the backward goes through the calls the other way round
                count = max(0, self.counts[graph, path, False] - 1 - count)
            kind = type(module)
            call = ModuleCall(path, count, type_name=f"{kind.__module__}.{kind.__qualname__}")
            last = next(iter(reversed(graph.nodes)), None) if graph is not None else None
            self.open.append(_Open(call, graph, last))

        return hook

    def leave(self, _module: nn.Module, _args: Any, _result: Any) -> None:
        """The hook for the end of a call, which comes after an error too."""
        if torch.compiler.is_dynamo_compiling():
            return
        scope = tuple(each.call for each in self.open if each.call.path.names)
        ended = self.open.pop()
        if ended.graph is None:
            return
        phase = Phase.RECOMPUTE if _torch.in_backward() else None
        for node in reversed(ended.graph.nodes):
            if node is ended.last:
                break
            if KEY not in node.meta and node.op != "placeholder":
                write_origin(node, scope, phase)
