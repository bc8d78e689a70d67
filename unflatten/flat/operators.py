"""What an operator does besides computing its result, read off its schema.

Torch's schemas tell which arguments are written and which results are views. The few facts that they leave
out (batch norm updates its running statistics; dropout returns its input in eval mode) stand in a table here.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import torch

from unflatten import _torch
from unflatten.flat.values import FlatInput, FlatNode, SubGraph, Value


class Order(Enum):
    """Which other operators an operator must keep its place among."""

    FREE = "none"
    NOTE = "nothing: it says what a tensor is like, without its values"
    CHECK = "other assertions"
    SEQUENCE = "other operators that draw random numbers or have side effects"


@dataclass(frozen=True, slots=True)
class Facts:
    """What holds for every call of an operator.

    Attributes:
        names: the names of its parameters, in order; empty where it has no schema.
        writes: the positions of the parameters that it writes.
        views: the positions of the parameters that its results may share memory with.
        returns: the position of the parameter that it returns, the object itself, or -1.
        order: what it must keep its place among, if `switches` don't turn that off.
        random: whether it draws random numbers.
    """

    names: tuple[str, ...] = ()
    writes: tuple[int, ...] = ()
    views: tuple[int, ...] = ()
    returns: int = -1
    order: Order = Order.FREE
    random: bool = False


HIDDEN_WRITES = {
    torch.ops.aten.batch_norm.default: ("training", ("running_mean", "running_var")),
    torch.ops.aten.native_batch_norm.default: ("training", ("running_mean", "running_var")),
    torch.ops.aten.cudnn_batch_norm.default: ("training", ("running_mean", "running_var")),
    torch.ops.aten.instance_norm.default: ("use_input_stats", ("running_mean", "running_var")),
}
"""Operators that write without saying so: the flag that makes them, and what they write."""

_MODE_FLAGS = ("train", "training", "use_input_stats")
_NO_DROPOUT = ("dropout", "dropout_p")
_PURE_MODULES = {operator.__name__, "_operator", math.__name__, builtins.__name__}
_SILENT_NAMESPACES = ("aten", "prims")
_NOTES = {torch.ops.aten._assert_tensor_metadata.default}
"""What capturing adds, at places that only the program's order has: the code would depend on it."""


@cache
def facts_of(target: Callable[..., Any]) -> Facts:
    """The facts about a callable; what is not known to be harmless keeps its place."""
    if isinstance(target, _torch.OpOverload):
        return _overload_facts(target)
    if isinstance(target, _torch.HigherOrderOperator):
        return Facts(order=Order.SEQUENCE if _torch.has_effects(target) else Order.FREE)
    pure = getattr(target, "__module__", None) in _PURE_MODULES or _is_symbolic(target)
    return Facts(order=Order.FREE if pure else Order.SEQUENCE)


def _is_symbolic(target: Callable[..., Any]) -> bool:
    name = getattr(target, "__name__", "")
    return name.lstrip("_").startswith("sym_") and getattr(target, "__module__", "").startswith("torch")


def _overload_facts(target: Any) -> Facts:
    schema = target._schema
    arguments = schema.arguments
    returned = [result.alias_info for result in schema.returns if result.alias_info is not None]
    writes = tuple(at for at, argument in enumerate(arguments) if _is_written(argument))
    views: tuple[int, ...] = ()
    if returned:
        views = tuple(at for at, argument in enumerate(arguments) if argument.alias_info is not None)
    elif torch.Tag.maybe_aliasing_or_mutating in target.tags and target not in HIDDEN_WRITES:
        views = (0,)
    returns = -1
    if len(schema.returns) == 1 and returned and returned[0].is_write and str(schema.returns[0].type) == "Tensor":
        same = [at for at in writes if arguments[at].alias_info.before_set == returned[0].before_set]
        returns = same[0] if len(same) == 1 else -1
    random = torch.Tag.nondeterministic_seeded in target.tags
    order = Order.FREE
    if random or _torch.has_effects(target):
        order = Order.SEQUENCE
    elif not schema.returns and not writes:
        order = Order.CHECK if target.namespace in _SILENT_NAMESPACES else Order.SEQUENCE
        order = Order.NOTE if target in _NOTES else order
    return Facts(tuple(argument.name for argument in arguments), writes, views, returns, order, random)


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def argument(node: FlatNode, name: str) -> Any:
    """The value that a call gives to a parameter by name, or None."""
    if name in node.kwargs:
        return node.kwargs[name]
    names = facts_of(node.target).names
    at = names.index(name) if name in names else len(node.args)
    return node.args[at] if at < len(node.args) else None


def order_of(node: FlatNode) -> Order:
    """What one operator must keep its place among: dropout in eval mode, say, is free."""
    facts = facts_of(node.target)
    if facts.random and not _torch.has_effects(node.target) and _is_switched_off(node, facts):
        return Order.FREE
    if facts.order is Order.FREE:
        for body in bodies(node):
            if any(order_of_target(inner) is Order.SEQUENCE for inner in body_calls(body)):
                return Order.SEQUENCE
    return facts.order


def order_of_target(call: torch.fx.Node) -> Order:
    """`order_of` for a node inside of a body, where switches count as on."""
    return facts_of(call.target).order if callable(call.target) else Order.FREE


def _is_switched_off(node: FlatNode, facts: Facts) -> bool:
    if any(argument(node, flag) is False for flag in _MODE_FLAGS if flag in facts.names):
        return True
    return any(argument(node, name) in (0, 0.0, None) for name in _NO_DROPOUT if name in facts.names)


def written_arguments(node: FlatNode) -> list[Any]:
    """The arguments that a call writes: tensors of the graph, or lists of them."""
    facts = facts_of(node.target)
    written = [node.args[at] if at < len(node.args) else node.kwargs.get(facts.names[at]) for at in facts.writes]
    if node.target in HIDDEN_WRITES:
        flag, names = HIDDEN_WRITES[node.target]
        if argument(node, flag):
            written += [argument(node, name) for name in names]
    if any(body_writes(body) for body in bodies(node)):
        written += node.operands
    return written


def returned_operand(node: FlatNode) -> Any:
    """The operand that a call hands back, the object itself, because there was nothing to do; None if none.

    `x.to(torch.float32)` of a float32 tensor is `x`, and so is dropout in eval mode. Captures can't tell the
    two apart afterwards and write the later one wherever `x` is used again.
    """
    operand = node.operands[0] if len(node.operands) == 1 else None
    if operand is None or not isinstance(node.target, _torch.OpOverload) or operand is not node.args[0]:
        return None
    if node.target._opname in ("dropout", "feature_dropout", "alpha_dropout"):
        return operand if argument(node, "train") is False else None
    if node.target._opname == "to" and not argument(node, "copy"):
        before, after = operand.meta.get("val"), node.meta.get("val")
        if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
            return None
        if (before.dtype, before.device) == (after.dtype, after.device):
            return operand if argument(node, "memory_format") in (None, torch.preserve_format) else None
    return None


def aliased(node: FlatNode) -> Iterator[Value]:
    """The operands that a result may share memory with."""
    facts = facts_of(node.target)
    if isinstance(node.target, _torch.OpOverload):
        for at in facts.views:
            yield from values_in([node.args[at] if at < len(node.args) else node.kwargs.get(facts.names[at])])
    else:
        yield from node.operands


def values_in(arguments: Iterable[Any]) -> Iterator[Value]:
    """The values of the graph in arguments, lists of them included."""
    for value in arguments:
        if isinstance(value, FlatNode | FlatInput):
            yield value
        elif isinstance(value, tuple | list):
            yield from values_in(value)


def bodies(node: FlatNode) -> Iterator[SubGraph]:
    """The bodies that a higher-order operator is given."""
    if isinstance(node.target, _torch.HigherOrderOperator):
        for value in (*node.args, *node.kwargs.values()):
            for item in value if isinstance(value, tuple | list) else (value,):
                if isinstance(item, SubGraph):
                    yield item


def body_calls(body: SubGraph) -> Iterator[torch.fx.Node]:
    """Every call in a body and in the bodies inside it."""
    for module in body.module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")


def body_writes(body: SubGraph) -> bool:
    """Whether a body has an operator that writes one of its arguments."""
    return any(facts_of(call.target).writes for call in body_calls(body) if callable(call.target))


def _default(target: Any, name: str) -> Any:
    return next(argument.default_value for argument in target._schema.arguments if argument.name == name)


def trained_mode(node: FlatNode) -> bool | None:
    """The mode that an operator was captured in, where it is one that depends on `training`."""
    if node.target is torch.ops.aten._native_batch_norm_legit_no_training.default:
        return False
    facts = facts_of(node.target)
    for flag in _MODE_FLAGS:
        if flag in facts.names:
            given = flag in node.kwargs or facts.names.index(flag) < len(node.args)
            value = argument(node, flag) if given else _default(node.target, flag)
            return value if isinstance(value, bool) else None
    return None
