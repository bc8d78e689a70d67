"""What regions cost: floating point operations and bytes, from the shapes that the graph tells. Nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import fx
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from unflatten import _torch
from unflatten.flat.operators import facts_of
from unflatten.paths import ModulePath
from unflatten.view.index import WORK, Index
from unflatten.view.values import Kind, Phase


@dataclass(frozen=True, slots=True)
class Cost:
    """What nodes cost.

    Attributes:
        flops: floating point operations of the forward, as `torch.utils.flop_counter` counts them.
        backward_flops: likewise of the backward, with what it computes again.
        parameter_bytes: the parameters and buffers of the modules.
        activation_bytes: what the forward computes, each memory once; views are free.
        saved_bytes: what of that the backward needs.
    """

    flops: int = 0
    backward_flops: int = 0
    parameter_bytes: int = 0
    activation_bytes: int = 0
    saved_bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Cost)))


def node_costs(index: Index) -> dict[fx.Node, Cost]:
    """What each node costs that costs anything; in linear time, and once for an index."""
    if "costs" not in index.kept:
        index.kept["costs"] = _node_costs(index)
    found: dict[fx.Node, Cost] = index.kept["costs"]
    return found


def _node_costs(index: Index) -> dict[fx.Node, Cost]:
    base: dict[fx.Node, fx.Node] = {}
    saved: set[fx.Node] = set()
    for node in index.nodes:
        base[node] = base.get(_viewed(node) or node, node)
        if index.owners[node].phase is not Phase.FORWARD and node.op != "output":
            saved.update(base[other] for other in node.all_input_nodes)
    found = {}
    known: dict[str, int] = {}
    for node in index.nodes:
        owner = index.owners[node]
        if owner.kind in WORK:
            forward = owner.phase is Phase.FORWARD
            held = _bytes(node) if forward and base[node] is node else 0
            flops = _flops(node, known)
            cost = Cost(flops if forward else 0, 0 if forward else flops, 0, held, held if node in saved else 0)
        else:
            cost = Cost(parameter_bytes=_bytes(node) if owner.kind in (Kind.PARAMETER, Kind.BUFFER) else 0)
        if cost != Cost():
            found[node] = cost
    return found


def total(costs: Mapping[fx.Node, Cost], nodes: Iterable[fx.Node]) -> Cost:
    """What some nodes cost together."""
    result = Cost()
    for node in nodes:
        if node in costs:
            result += costs[node]
    return result


def _viewed(node: fx.Node) -> fx.Node | None:
    """The node whose memory a node's result is, or is a part of."""
    if node.op == "call_function" and hasattr(node.target, "_schema"):
        views = facts_of(node.target).views
        value = node.args[views[0]] if views and views[0] < len(node.args) else None
        return value if isinstance(value, fx.Node) else None
    return None


def _bytes(node: fx.Node) -> int:
    found = node.meta.get("val")
    size = 0
    for value in found if isinstance(found, tuple | list) else (found,):
        if isinstance(value, torch.Tensor) and all(isinstance(each, int) for each in value.shape):
            size += value.numel() * value.element_size()
    return 0 if getattr(node.target, "__name__", "") == "getitem" else size


def _flops(node: fx.Node, known: dict[str, int]) -> int:
    target: Any = node.target
    count = flop_registry.get(getattr(target, "overloadpacket", None))
    if count is None and not _is_composite(target):
        return 0
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda other: other.meta.get("val"))
    if count is not None:
        return int(count(*args, **kwargs, out_val=node.meta.get("val")))
    key = f"{target} {_torch.map_leaves((args, kwargs), _described)}"
    if key not in known:
        known[key] = _counted(target, args, kwargs)
    return known[key]


def _is_composite(target: Any) -> bool:
    """Whether an operator is made of others, as those are before decomposition: `aten.linear`."""
    return isinstance(target, _torch.OpOverload) and _torch.is_composite(target)


def _counted(target: Any, args: Any, kwargs: Any) -> int:
    """What the operators are worth that a composite one calls, on tensors without data."""
    given = _torch.map_leaves((args, kwargs), _without_data)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            target(*given[0], **given[1])
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        return 0  # it wants data, and those that do are no arithmetic
    return int(counter.get_total_flops())


def _without_data(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty([_plain(size) for size in value.shape], dtype=value.dtype, device="meta")
    if isinstance(value, torch.device):
        return torch.device("meta")
    return _plain(value)


def _plain(value: Any) -> Any:
    """A size as a number: the one of the capture where it is free."""
    hint = _torch.size_hint(value) if isinstance(value, torch.SymInt) else value
    return 2 if hint is None and isinstance(value, torch.SymInt) else hint


def _described(value: Any) -> str:
    return f"{value.dtype}{tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


@dataclass(frozen=True, slots=True)
class Row:
    """A module of the table, or several equal ones: `layers.[0-31]`."""

    path: str
    type_name: str
    cost: Cost
    depth: int


@dataclass(frozen=True, slots=True)
class Table:
    """The costs of a module and all inside it."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        head = ("module", "class", "flops", "backward", "parameters", "activations", "saved")
        lines: list[tuple[str, ...]] = [head]
        for row in self.rows:
            numbers = (f"{getattr(row.cost, each.name):,}" for each in fields(Cost))
            lines.append(("  " * row.depth + (row.path or "(root)"), row.type_name.rpartition(".")[2], *numbers))
        widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if at < 2 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    __repr__ = __str__


def table(index: Index, root: ModulePath) -> Table:
    """The costs of every module, equal siblings in a row folded into one line."""
    costs = node_costs(index)
    own: dict[ModulePath, Cost] = {}
    for node, cost in costs.items():
        path = index.owners[node].path
        own[path] = own.get(path, Cost()) + cost
    order = list(_walk(index, root))
    whole: dict[ModulePath, Cost] = {}
    shapes: dict[ModulePath, int] = {}
    known: dict[Any, int] = {}
    for path in reversed(order):
        inside = [path / name for name in index.children.get(path, ())]
        whole[path] = sum((whole[each] for each in inside), own.get(path, Cost()))
        key = (index.types.get(path, ""), own.get(path), tuple((each.name, shapes[each]) for each in inside))
        shapes[path] = known.setdefault(key, len(known))
    rows = []
    stack: list[tuple[ModulePath, str, int]] = [(root, str(root), 0)]
    while stack:
        path, spelled, depth = stack.pop()
        rows.append(Row(spelled, index.types.get(path, ""), whole[path], depth))
        folded = _folded(index.children.get(path, ()), path, shapes)
        stack += [
            (path / first, f"{spelled}.{name}" if spelled else name, depth + 1) for first, name in reversed(folded)
        ]
    return Table(tuple(rows))


def _walk(index: Index, root: ModulePath) -> Iterator[ModulePath]:
    stack = [root]
    while stack:
        path = stack.pop()
        yield path
        stack.extend(path / name for name in index.children.get(path, ()))


def _folded(names: Sequence[str], path: ModulePath, shapes: Mapping[ModulePath, int]) -> list[tuple[str, str]]:
    """Runs of equal numbered siblings: the first of each, and how it is spelled."""
    runs: list[list[str]] = []
    for name in names:
        last = runs[-1][-1] if runs else ""
        follows = name.isdecimal() and last.isdecimal() and int(name) == int(last) + 1
        if follows and shapes[path / name] == shapes[path / last]:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [(run[0], run[0] if len(run) == 1 else f"[{run[0]}-{run[-1]}]") for run in runs]
