"""Running a module without changing what it is given, and finding the call at which two modules part."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from unflatten import _torch
from unflatten.info import info
from unflatten.modules import UnflattenedModule
from unflatten.testing.comparing import Difference, differences

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]


def run(module: nn.Module, args: Args, kwargs: Kwargs, seed: int = 0) -> tuple[Any, Any]:
    """Calls a module on copies of the arguments; the result, and the arguments afterwards."""
    given = copy.deepcopy((args, dict(kwargs)))
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return module(*given[0], **given[1]), given


@dataclass(frozen=True)
class Call:
    """One call of one module, its arguments as they were before it."""

    name: str
    args: Args
    kwargs: dict[str, Any]
    result: Any


def calls_of(module: nn.Module, args: Args, kwargs: Kwargs | None = None) -> list[Call]:
    """Every call that a module makes of those in it, in the order in which they end."""
    calls: list[Call] = []
    given: list[tuple[Args, dict[str, Any]]] = []
    hooks = []

    def enter(_: nn.Module, args: Args, kwargs: dict[str, Any]) -> None:
        given.append(copied((args, kwargs)))

    for name, inner in module.named_modules():
        if name:

            def leave(_: nn.Module, __: Any, result: Any, name: str = name) -> None:
                calls.append(Call(name, *given.pop(), copied(result)))

            hooks.append(inner.register_forward_pre_hook(enter, with_kwargs=True, prepend=True))
            hooks.append(inner.register_forward_hook(leave))
    try:
        run(module, args, kwargs or {})
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def copied(value: Any) -> Any:
    """Copies of the tensors in a value; what is no tensor stays the very object."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(map(copied, value))
    return {key: copied(item) for key, item in value.items()} if type(value) is dict else value


def located(
    found: list[Difference], expected: nn.Module, given: nn.Module, args: Args, kwargs: Kwargs
) -> list[Difference]:
    """The differences of two runs, with the first call that gave something else, and the node that made it."""
    if not found:
        return found
    try:
        path, where = _parting(
            calls_of(copy.deepcopy(expected), args, kwargs), calls_of(copy.deepcopy(given), args, kwargs)
        )
        node = _node(given.get_submodule(path), where)
    except Exception:  # noqa: BLE001  # a place that can't be found must not hide the failure
        return found
    return [replace(difference, path=path or "the root", node=node) for difference in found]


def _parting(expected: list[Call], given: list[Call]) -> tuple[str, int]:
    """The path of the first call of which the result differs, and which part of it."""
    left: dict[str, list[Call]] = {}
    for call in expected:
        left.setdefault(call.name, []).append(call)
    for call in given:
        wanted = left.get(call.name)
        if not wanted:
            continue
        pairs = zip(_torch.tree_leaves(wanted.pop(0).result), _torch.tree_leaves(call.result), strict=False)
        for at, (want, have) in enumerate(pairs):
            if differences(want, have):
                return call.name, at
    return "", 0


def _node(module: nn.Module, at: int) -> str:
    """The node that makes a part of a module's result."""
    if not isinstance(module, UnflattenedModule) or not info(module).bodies:
        return ""
    results = _torch.tree_leaves(info(module).graph.output_node().args[0])
    return str(results[at]) if at < len(results) else ""
