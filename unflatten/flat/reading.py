"""Reading one fx graph into `FlatNode`s.

What torch expresses by wrapping graphs in operators is undone here, so that everything later sees plain
operators: blocks under `torch.no_grad()` or `torch.autocast()` become a property of the operators in them,
and effect tokens become the order that they stood for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from unflatten import _torch
from unflatten.errors import GraphOrderError, MissingStateError, ProgramError
from unflatten.flat.operators import facts_of
from unflatten.flat.values import FlatInput, FlatNode, Mode, Modes, Source, SubGraph, Value
from unflatten.paths import Scope
from unflatten.scopes import ScopeReader


@dataclass(frozen=True, slots=True)
class _Block:
    """A graph that is being read: the program's own, or the body of a mode block."""

    owner: fx.GraphModule
    env: dict[fx.Node, Any]
    modes: Modes = ()
    scope: Scope = ()
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class _Results:
    """What an operator that came with an effect token returns besides the token."""

    node: FlatNode
    single: bool


@dataclass
class GraphReader:
    """Collects operators; `read` appends to `nodes`.

    Attributes:
        scopes: reads module stacks.
        nodes: the operators so far.
        attributes: tensors and objects that the graph holds itself, by name.
        attribute_inputs: the same as inputs.
    """

    scopes: ScopeReader
    nodes: list[FlatNode] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    attribute_inputs: dict[str, FlatInput] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _handed_on: dict[FlatNode, Any] = field(default_factory=dict)

    def read(self, owner: fx.GraphModule, env: dict[fx.Node, Any]) -> Any:
        """Appends the operators of `owner.graph`; returns what its output node returns.

        Args:
            owner: holds the graph and the attributes that it uses.
            env: the values of the placeholders.
        """
        return self._read(_Block(owner, env))

    def _read(self, block: _Block) -> Any:
        for node in block.owner.graph.nodes:
            if node.op == "output":
                return self._substitute(node, block.env)[0][0]
            if node.op == "get_attr":
                block.env[node] = self._attribute(block.owner, node)
            elif node.op == "call_function":
                block.env[node] = self._call(block, node)
            elif node.op != "placeholder":
                raise ProgramError(f"node {node.name!r} is a {node.op}, which exported programs don't have")
        raise ProgramError("the graph has no output node")

    def _call(self, block: _Block, node: fx.Node) -> Any:
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
            whole = block.env.get(node.args[0])
            if isinstance(whole, _Results | tuple | list):
                return self._item(block, node, whole, node.args[1])
        args, kwargs, operands = self._substitute(node, block.env)
        if node.target is _torch.WRAP_GRAD:
            enabled, body, *inputs = args
            return self._enter(block, node, "grad", enabled, body, inputs)
        if node.target is _torch.WRAP_AUTOCAST:
            device, dtype, enabled, cache, body, *inputs = args
            return self._enter(block, node, f"autocast {device}", (dtype, enabled, cache), body, inputs)
        if node.target is _torch.WITH_EFFECTS:
            _, target, *rest = args
            meta, single = _without_token(node.meta, target)
            kept = tuple(value for value in operands if not _is_token(value))
            return _Results(self._append(block, node, target, tuple(rest), kwargs, kept, meta), single)
        if node.target is torch.ops.aten.copy_.default and self._object(args[0]) is self._object(args[1]):
            return args[0]  # how export writes `self.count += 1`: the addition in place has done it
        return self._append(block, node, node.target, args, kwargs, operands, node.meta)

    def _object(self, value: Any) -> Any:
        """The tensor that operators in place hand on."""
        return self._handed_on.get(value, value) if isinstance(value, FlatNode) else value

    def _append(
        self,
        block: _Block,
        node: fx.Node,
        target: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        operands: tuple[Value, ...],
        meta: Mapping[str, Any],
    ) -> FlatNode:
        name = node.name if node.name not in self._names else f"{block.prefix}{node.name}"
        self._names.add(name)
        if any(_is_token(value) for value in operands):
            args, operands = self._with_token(node, args, operands)
        scope = self.scopes.read(meta)
        if scope is None and block.modes:
            scope = block.scope
        flat = FlatNode(len(self.nodes), name, target, args, kwargs, operands, meta, scope, block.modes)
        self.nodes.append(flat)
        returned = facts_of(target).returns
        if 0 <= returned < len(args):
            self._handed_on[flat] = self._object(args[returned])
        return flat

    def _with_token(
        self, node: fx.Node, args: tuple[Any, ...], operands: tuple[Value, ...]
    ) -> tuple[tuple[Any, ...], tuple[Value, ...]]:
        """A body that passes tokens on inside itself still wants one: it gets a fresh one."""
        token = FlatNode(
            len(self.nodes), f"{node.name}_token", _torch.MAKE_TOKEN, (), {}, (), {}, self.scopes.read(node.meta)
        )
        self.nodes.append(token)
        changed = tuple(token if _is_token(value) else value for value in args)
        return changed, (token, *(value for value in operands if not _is_token(value)))

    def _item(self, block: _Block, node: fx.Node, whole: Any, at: Any) -> Any:
        """One result of something that was taken apart while reading."""
        if not isinstance(whole, _Results):
            return whole[at]
        if at == 0:
            return _TOKEN_INPUT
        if whole.single:
            return whole.node
        inner = whole.node
        return self._append(block, node, operator.getitem, (inner, at - 1), {}, (inner,), node.meta)

    def _enter(
        self, block: _Block, node: fx.Node, kind: str, value: Any, body: SubGraph, inputs: list[Any]
    ) -> tuple[Any, ...]:
        """Reads a body in place; the values that the operator returns, in order."""
        module = body.module
        placeholders = [inner for inner in module.graph.nodes if inner.op == "placeholder"]
        scope = self.scopes.read(node.meta) or ()
        others = [mode for mode in block.modes if mode.kind != kind]
        modes = tuple(sorted((*others, Mode(kind, value, scope)), key=lambda mode: mode.kind))
        env = dict(zip(placeholders, inputs, strict=True))
        result = self._read(_Block(module, env, modes, scope, f"{block.prefix}{node.name}_"))
        return tuple(result) if isinstance(result, tuple | list) else (result,)

    def _substitute(
        self, node: fx.Node, env: dict[fx.Node, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any], tuple[Value, ...]]:
        """The arguments of a node with values in place of nodes, and those values."""
        operands: dict[Value, None] = {}

        def value_of(argument: Any) -> Any:
            if not isinstance(argument, fx.Node):
                return argument
            try:
                value = env[argument]
            except KeyError:
                raise GraphOrderError(
                    f"node {node.name!r} uses {argument.name!r} before it is computed: "
                    "the graph is not in an order in which it can run. Check it with program.graph.lint()"
                ) from None
            if isinstance(value, _Results):
                value = value.node
            if isinstance(value, FlatNode | FlatInput):
                operands[value] = None
            elif isinstance(value, tuple):
                operands.update((item, None) for item in value if isinstance(item, FlatNode | FlatInput))
            return value

        args = _torch.map_aggregate(node.args, value_of)
        kwargs = _torch.map_aggregate(node.kwargs, value_of) if node.kwargs else {}
        return args, kwargs, tuple(operands)

    def _attribute(self, owner: fx.GraphModule, node: fx.Node) -> Any:
        value: Any = owner
        for name in str(node.target).split("."):
            if not hasattr(value, name):
                raise MissingStateError(f"node {node.name!r} reads {node.target!r}, which the graph module lacks")
            value = getattr(value, name)
        if isinstance(value, fx.GraphModule):
            return SubGraph(str(node.target), value)
        key = str(node.target)
        if self.attributes.setdefault(key, value) is not value:  # bodies may use one name for different things
            key = f"{key}_{len(self.attributes)}"
            self.attributes[key] = value
        source = Source.CONSTANT if isinstance(value, torch.Tensor) else Source.OBJECT
        return self.attribute_inputs.setdefault(key, FlatInput(key, source, key, node.meta))


_TOKEN_INPUT = FlatInput("token", Source.TOKEN, "", {})


def _is_token(value: Any) -> bool:
    return isinstance(value, FlatInput) and value.source is Source.TOKEN


def _without_token(meta: Mapping[str, Any], target: Callable[..., Any]) -> tuple[Mapping[str, Any], bool]:
    """Metadata of the operator inside a `with_effects`, and whether it returns a single value."""
    value = meta.get("val")
    if isinstance(value, tuple | list):
        single = len(value) == 2
        kept: dict[str, Any] = {"val": value[1] if single else tuple(value[1:]) or None}
    else:
        single = isinstance(target, _torch.OpOverload) and len(target._schema.returns) == 1
        kept = {}
    bindings = meta.get("unbacked_bindings")
    if bindings:
        kept["unbacked_bindings"] = {symbol: path[1:] for symbol, path in bindings.items()}
    return {**meta, **kept}, single
