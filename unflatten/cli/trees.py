"""Trees of modules as rows of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unflatten.errors import JointProgramError

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.export import ExportedProgram

    from nir_bridge import NIRModule
    from unflatten.view.index import Index


@dataclass(frozen=True, slots=True)
class Row:
    """A module.

    Attributes:
        path: the names that lead to it.
        type_name: its class, without the module that holds it.
        parameters: how many numbers its parameters hold, with those inside.
        buffers: likewise its buffers.
        nodes: how many operators it computes, with those inside; empty where nothing tells.
        calls: how it is called: shapes in and out.
    """

    path: tuple[str, ...]
    type_name: str
    parameters: int
    buffers: int
    nodes: str
    calls: str


def program_rows(program: ExportedProgram) -> Iterator[Row]:
    """The modules of a program, each before those inside."""
    from unflatten import GraphView
    from unflatten.cli.opening import nested

    index = GraphView(program).index
    try:
        tree = nested(program)
    except JointProgramError:
        yield from _joint_rows(index)
        return
    yield from _module_rows(tree, index)


def _module_rows(tree: nn.Module, index: Index) -> Iterator[Row]:
    from unflatten import Info, UnflattenedModule
    from unflatten.info import all_calls
    from unflatten.paths import ModulePath

    calls = all_calls(tree)
    for names, module in walk(tree):
        made = isinstance(module, UnflattenedModule)
        name = Info(module).type_name.rpartition(".")[2] if made else type(module).__name__
        held, buffers = _held(module.parameters()), _held(module.buffers())
        nodes = _nodes(index, ModulePath(names))
        yield Row(names, name or "Module", held, buffers, nodes, _described(calls.get(module, ())))


def _held(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _joint_rows(index: Index) -> Iterator[Row]:
    """The modules of a program with its backward, which has no nested form."""
    from unflatten.paths import ROOT

    held = {path: _numbers(index.state.get(path, {}).values()) for path in index.children}
    order, stack = [], [ROOT]
    while stack:
        path = stack.pop()
        order.append(path)
        stack.extend(path / name for name in reversed(index.children[path]))
    for path in reversed(order):
        held[path] += sum(held[path / name] for name in index.children[path])
    for path in order:
        name = index.types.get(path, "").rpartition(".")[2] or "Module"
        yield Row(path.names, name, held[path], 0, _nodes(index, path), "")


def _numbers(nodes: Iterable[Any]) -> int:
    return sum(node.meta["val"].numel() for node in nodes if hasattr(node.meta.get("val"), "numel"))


def _nodes(index: Index, path: Any) -> str:
    from unflatten.view.values import Phase

    counts = {phase.value: index.count(path, phase) for phase in Phase}
    found = [(name, count) for name, count in counts.items() if count]
    if [name for name, _ in found] in ([], ["forward"]):
        return str(counts["forward"])
    return " + ".join(f"{count} {name}" for name, count in found)


def _described(calls: Iterable[Any]) -> str:
    from unflatten.calls.arguments import describe

    found = [f"({call.arguments}) -> {describe(call.results)}" for call in calls]
    if len(found) < 2:
        return "".join(found)
    same = len(set(found)) == 1
    return f"{len(found)} calls: {found[0]}" + ("" if same else ", ...")


def network_rows(network: NIRModule, graph: Any) -> Iterator[Row]:
    """The modules of a NIR graph, each before those inside."""
    known = dict(_nir_nodes(graph))
    originals = dict(network.original_names)
    inside = Counter("" if not size else ".".join(names[:size]) for path in originals for names, size in _ups(path))
    for names, module in walk(network):
        path = ".".join(names)
        node = known.get(originals.get(path, ""), None if names else graph)
        name = type(module if node is None else node).__name__
        yield Row(names, name, _held(module.parameters()), _held(module.buffers()), str(inside[path]), _typed(node))


def _ups(path: str) -> Iterator[tuple[list[str], int]]:
    """The names of a path, and how many of them lead to each module around it."""
    names = path.split(".")
    return ((names, size) for size in range(len(names) + 1))


def _nir_nodes(graph: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, node in getattr(graph, "nodes", {}).items():
        yield prefix + name, node
        yield from _nir_nodes(node, f"{prefix}{name}.")


def _typed(node: Any) -> str:
    """The shapes that a node takes and gives, where its fields tell."""
    takes, gives = (_shapes(getattr(node, name, None)) for name in ("input_type", "output_type"))
    return f"{takes} -> {gives}" if takes and gives else ""


def _shapes(ports: Any) -> str:
    shapes = list(ports.values()) if isinstance(ports, dict) else []
    if any(shape is None or len(shape) == 0 for shape in shapes):
        return ""
    return ", ".join(str([int(size) for size in shape]) for shape in shapes)


def walk(module: nn.Module) -> Iterator[tuple[tuple[str, ...], nn.Module]]:
    """All modules with the names that lead to them, each before those inside, ties each time."""
    stack: list[tuple[tuple[str, ...], nn.Module]] = [((), module)]
    while stack:
        names, found = stack.pop()
        yield names, found
        inside = [(name, child) for name, child in found._modules.items() if child is not None]
        stack.extend(((*names, name), child) for name, child in reversed(inside))
