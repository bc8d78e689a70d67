"""The flat program as values: operators, the inputs they use, and what surrounds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from unflatten.errors import GraphOrderError
from unflatten.flat.packing import pack_graph, unpack_graph
from unflatten.paths import ModulePath, Scope
from unflatten.recording.record import Record


@dataclass(frozen=True, slots=True)
class Mode:
    """A global mode in force around an operator, as a `with` block sets it.

    Attributes:
        kind: `"grad"`, or `"autocast"` and the device.
        value: whether gradients are recorded, or autocast's `(dtype, enabled, cache_enabled)`.
        opener: the scope whose code has the block.
    """

    kind: str
    value: Any
    opener: Scope = field(default=(), compare=False)


Modes = tuple[Mode, ...]
"""The modes around an operator, by kind."""


class Source(Enum):
    """Where the value of a graph input comes from."""

    USER = "user input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    OBJECT = "object"
    TOKEN = "token"  # noqa: S105 - an effect token, no secret


@dataclass(frozen=True, eq=False, slots=True)
class FlatInput:
    """An input of the flat graph: an argument of the caller or an entry of the state.

    Attributes:
        name: the name of its placeholder.
        source: what it stands for.
        fqn: the name of the state entry, empty for a user input.
        meta: the metadata of its node.
        position: its place among the user inputs, -1 for state.
        persistent: whether the state dict holds it.
    """

    name: str
    source: Source
    fqn: str
    meta: Mapping[str, Any]
    position: int = -1
    persistent: bool = True

    def __repr__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, eq=False, slots=True)
class FlatNode:
    """One operator of the flat graph.

    Attributes:
        index: its place in the order in which the program was read.
        name: the name of its node.
        target: the callable.
        args, kwargs: its arguments, with `FlatNode`s and `FlatInput`s where values go in.
        operands: those values, each once, in the order of the arguments.
        meta: the metadata of its node; shared with the program, so read-only.
        scope: the module calls around it, or None where nothing recorded them.
        modes: the global modes in force.
    """

    index: int
    name: str
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    operands: tuple[Value, ...]
    meta: Mapping[str, Any]
    scope: Scope | None
    modes: Modes = ()

    def __repr__(self) -> str:
        return f"%{self.name}"


Value = FlatNode | FlatInput


@dataclass(frozen=True, eq=False, slots=True)
class SubGraph:
    """The body of a higher-order operator, as an argument."""

    name: str
    module: fx.GraphModule

    def __reduce__(self) -> Any:
        return _unpack_body, (self.name, pack_graph(self.module))

    def __repr__(self) -> str:
        return self.name


def _unpack_body(name: str, packed: Any) -> SubGraph:
    return SubGraph(name, unpack_graph(packed))


@dataclass(frozen=True, eq=False, slots=True)
class FlatProgram:
    """A program as read: see the attributes of `FlatNode` and `FlatInput`.

    Attributes:
        source: the program itself, which is never changed.
        inputs: the graph's inputs, in order, and the constants that the graph itself holds.
        nodes: the operators, in an order in which they can run.
        outputs: what the caller gets, flat; values or constants.
        mutations: the new value of each input or state entry that the graph updates functionally.
        paths: every module path, in the order of the original's `named_modules()`.
        aliases: the first path of each module that has several, for the others.
        root_type: the dotted name of the root's class, where known.
        attributes: the constants that the graph itself holds, by name.
        record: what was recorded of the calls when the program was exported.
        restored: writes that were put back in place of functional updates.
        order: an order in which the operators can run, where it is not that of `nodes`.
        replaced: what an operator uses instead of an operand: the buffer that it had been written to.
    """

    source: ExportedProgram
    inputs: tuple[FlatInput, ...]
    nodes: tuple[FlatNode, ...]
    outputs: tuple[Any, ...]
    mutations: tuple[tuple[Value, FlatInput], ...]
    paths: tuple[ModulePath, ...]
    aliases: Mapping[ModulePath, ModulePath]
    root_type: str
    attributes: Mapping[str, Any]
    record: Record | None = None
    restored: frozenset[FlatNode] = frozenset()
    order: tuple[FlatNode, ...] = ()
    replaced: Mapping[tuple[FlatNode, Value], FlatInput] = field(default_factory=dict)

    @property
    def sequence(self) -> tuple[FlatNode, ...]:
        """The operators in an order in which they can run, writes where they belong."""
        return self.order or self.nodes

    @property
    def user_inputs(self) -> list[FlatInput]:
        """The inputs that the caller provides, in order."""
        return [value for value in self.inputs if value.source is Source.USER]

    def verify(self) -> None:
        """Checks that every node uses only inputs and earlier nodes.

        Raises:
            GraphOrderError: one does not.
        """
        seen: set[Value] = set(self.inputs)
        for node in self.sequence:
            late = [value for value in node.operands if value not in seen]
            if late:
                raise GraphOrderError(f"{node} uses {late} before it is computed")
            seen.add(node)
