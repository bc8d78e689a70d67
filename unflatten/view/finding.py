"""The conditions by which nodes are searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from unflatten.errors import ViewError
from unflatten.paths import ROOT
from unflatten.view.index import Index
from unflatten.view.selecting import matching
from unflatten.view.values import Phase

Condition = Callable[[fx.Node], bool]


def conditions(index: Index, *, path: str | None, cls: Any, op: Any, annotation: Any, phase: Any) -> list[Condition]:
    """What has to hold for a node, for each thing that was asked."""
    found: list[Condition] = []
    if path is not None:
        found.append(_within(index, path))
    if cls is not None:
        name = f"{cls.__module__}.{cls.__qualname__}" if isinstance(cls, type) else cls
        found.append(_of_class(index, name))
    if op is not None:
        found.append(lambda node: _is_op(node, op))
    if annotation is not None:
        wanted = annotation if isinstance(annotation, Mapping) else {annotation: ...}
        found.append(lambda node: _is_annotated(node, wanted))
    if phase is not None:
        known = {each.value: each for each in Phase}
        if phase not in known and not isinstance(phase, Phase):
            raise ViewError(f"{phase!r} is no phase: {', '.join(known)} are")
        meant = known.get(phase, phase)
        found.append(lambda node: index.owners[node].phase is meant)
    return found


def _within(index: Index, path: str) -> Condition:
    nodes: set[fx.Node] = set()
    for found in matching(path, index.children):
        if found == ROOT:
            return lambda _: True
        nodes.update(index.work(found, None, None))
    return nodes.__contains__


def _of_class(index: Index, name: str) -> Condition:
    known: dict[int, bool] = {}

    def holds(node: fx.Node) -> bool:
        scope = index.owners[node].scope
        if id(scope) not in known:
            kinds = [call.type_name for call in scope]
            known[id(scope)] = any(kind == name or kind.rpartition(".")[2] == name for kind in kinds)
        return known[id(scope)]

    return holds


def _is_op(node: fx.Node, op: Any) -> bool:
    target: Any = node.target
    if not isinstance(op, str):
        return target is op or getattr(target, "overloadpacket", None) is op
    spelled = target if isinstance(target, str) else str(target)
    names = {spelled, getattr(target, "__name__", spelled)}
    packet = getattr(target, "overloadpacket", None)
    if packet is not None:
        names |= {str(packet), str(packet).rpartition(".")[2], f"{spelled}"}
    return op in names


def _is_annotated(node: fx.Node, wanted: Mapping[str, Any]) -> bool:
    custom = node.meta.get("custom") or {}
    return all(
        key in custom and (value is ... or frozen(custom[key]) == frozen(value)) for key, value in wanted.items()
    )


def frozen(value: Any) -> Any:
    """Lists, which a saved program has where there were tuples, as tuples; mappings as tuples of pairs.

    >>> frozen({"stage": [1, 2]})
    (('stage', (1, 2)),)
    """
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, Mapping):
        return tuple((key, frozen(each)) for key, each in value.items())
    return frozenset(value) if isinstance(value, set) else value


def reader(key: str | Callable[[fx.Node], Any]) -> Callable[[fx.Node], Any]:
    """What gives the value that a node has for a key: of its metadata, its annotations, or what a function gives."""

    def read(node: fx.Node) -> Any:
        if callable(key):
            value = key(node)
        else:
            value = node.meta.get(key, (node.meta.get("custom") or {}).get(key))
        value = frozen(value)
        if isinstance(value, torch.Tensor) or not _is_hashable(value):
            raise ViewError(
                f"{node.name!r} has a {type(value).__name__} for {key if isinstance(key, str) else 'this key'!r}, by "
                "which nodes can't be grouped: give a function of the node that makes a number, text or tuple of it"
            )
        return value

    return read


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return not isinstance(value, tuple) or not any(isinstance(each, torch.Tensor) for each in value)
