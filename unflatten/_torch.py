"""The private names of torch that this package relies on, and nothing else.

Each entry says what it is for and since which release it is there, so that a new torch release is one
file's work. No other module may import a name of torch that starts with an underscore or that torch does
not document; the linter checks the imports.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch._functorch import predispatch
from torch._higher_order_ops.effects import has_effects as _has_effects
from torch._higher_order_ops.effects import with_effects as WITH_EFFECTS
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.fx.experimental.proxy_tensor import get_proxy_mode as _get_proxy_mode
from torch.fx.experimental.proxy_tensor import get_proxy_slot as _get_proxy_slot
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
from torch.fx.node import map_aggregate
from torch.utils._pytree import TreeSpec
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.solve import try_solve

from unflatten.fields import Fields

__all__ = [
    "SYMPY_INTERP",
    "WITH_EFFECTS",
    "WRAP_AUTOCAST",
    "WRAP_GRAD",
    "HigherOrderOperator",
    "OpOverload",
    "TreeSpec",
    "guard_sources",
    "has_effects",
    "in_backward",
    "is_fx_symbolic_tracing",
    "is_generated_module",
    "is_literal_constant",
    "map_aggregate",
    "symbolic_expression",
]

# with torch.no_grad() / torch.autocast() blocks arrive as these operators, their body as a graph (2.5).
WRAP_GRAD: HigherOrderOperator = torch.ops.higher_order.wrap_with_set_grad_enabled
WRAP_AUTOCAST: HigherOrderOperator = torch.ops.higher_order.wrap_with_autocast

# The same blocks as pairs of nodes, the form in which export meets them first (2.5).
SET_GRAD = torch._C._set_grad_enabled
ENTER_AUTOCAST = torch.amp.autocast_mode._enter_autocast
EXIT_AUTOCAST = torch.amp.autocast_mode._exit_autocast

# A fresh effect token, for bodies that pass tokens on among themselves (2.4).
MAKE_TOKEN: OpOverload = torch.ops.prims._make_token.default

# What functorch transforms leave in a training-IR graph (2.8). Opening and closing calls have no data
# dependence on what runs between them, which is why they are named here.
BRACKET_OPEN = {
    predispatch._vmap_increment_nesting,
    predispatch._jvp_increment_nesting,
    predispatch._enter_dual_level,
}
BRACKET_CLOSE = {
    predispatch._vmap_decrement_nesting,
    predispatch._jvp_decrement_nesting,
    predispatch._exit_dual_level,
}
BRACKET_ENTER = {predispatch._add_batch_dim, predispatch._make_dual}
BRACKET_LEAVE = {predispatch._remove_batch_dim, predispatch._unpack_dual, predispatch._unwrap_for_grad}

# The spec of a leaf; its constructor changed its name in 2.9.
LEAF: TreeSpec = pytree.tree_structure(0)

# What a graph computes with: the values of arguments that are not constants.
GRAPH_VALUES = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)

_LITERAL_CONSTANT = re.compile(r"_?(lifted_tensor|tensor_constant|lifted_custom|torchbind_obj)_?\d+(_\d+)?")
_GENERATED_MODULES = {"_guards_fn"}


def has_effects(op: object) -> bool:
    """Whether an operator is registered as one whose order matters (2.4; `torch.library` has no reader)."""
    return isinstance(op, OpOverload | HigherOrderOperator) and bool(_has_effects(op))


def symbolic_expression(value: object) -> Any:
    """The sympy expression of a `SymInt`, `SymFloat` or `SymBool`, else None (`.node`, 2.0)."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value.node.expr
    return None


def guard_sources(program: ExportedProgram) -> list[str]:
    """The Python conditions on the inputs that the capture relied on (`_guards_code`, 2.9)."""
    return list(getattr(program, "_guards_code", None) or ())


def is_literal_constant(name: str) -> bool:
    """Whether export made up this name for a tensor written out inside of a `forward` (2.1)."""
    return bool(_LITERAL_CONSTANT.fullmatch(name))


def is_generated_module(fqn: str) -> bool:
    """Whether `ExportedProgram.module()` adds a module of this name, which a second export records (2.9)."""
    return fqn in _GENERATED_MODULES


def as_parameter(data: torch.Tensor, like: torch.nn.Parameter) -> torch.nn.Parameter:
    """A parameter of the class of `like` over `data`; its constructor may want more (`_make_subclass`, 1.0)."""
    made: torch.nn.Parameter = torch.Tensor._make_subclass(type(like), data, like.requires_grad)
    return made


def in_backward() -> bool:
    """Whether the autograd engine is running on this thread: activation recomputation calls modules from it."""
    return torch._C._current_graph_task_id() != -1


class Local(threading.local):
    """Per-thread flag that `torch.compile` can trace: a plain attribute set in `__init__`."""

    def __init__(self) -> None:
        self.inside = False


def tree_structure_matches(value: object, spec: TreeSpec) -> bool:
    """Whether a value nests as a spec says; the order of a dict's keys does not matter (`eq_spec`, 2.6)."""
    return _nests(value, spec)


def _nests(value: Any, spec: TreeSpec) -> bool:
    if spec.is_leaf():
        if isinstance(value, (dict, list, tuple)):  # dynamo can't trace `dict | list`
            return isinstance(value, torch.Size) or is_leaf_value(value)
        return True
    if isinstance(spec.context, Fields):
        names = spec.context.names
        return type(value) is spec.type and all(
            hasattr(value, name) and _nests(getattr(value, name), child)
            for name, child in zip(names, spec.children(), strict=True)
        )
    if spec.type is dict:
        return (
            type(value) is dict
            and len(value) == spec.num_children
            and all(
                key in value and _nests(value[key], child)
                for key, child in zip(spec.context, spec.children(), strict=True)
            )
        )
    if spec.type in (tuple, list):
        return (
            isinstance(value, spec.type)
            and (type(value) is spec.type or type(value) is torch.Size)
            and len(value) == spec.num_children
            and all(_nests(item, child) for item, child in zip(value, spec.children(), strict=True))
        )
    return bool(pytree.tree_structure(value) == spec)


def is_leaf_value(value: object) -> bool:
    """Whether pytree takes a value for a leaf."""
    return pytree.tree_structure(value).is_leaf()


def tree_leaves(value: object) -> list[Any]:
    """The leaves of a nested value, in pytree's order."""
    return pytree.tree_leaves(value)


def rebuild(leaves: list[Any], spec: TreeSpec) -> Any:
    """Leaves put together as a spec says."""
    return pytree.tree_unflatten(leaves, spec)


def flatten_one_level(value: object) -> tuple[Any, Any, list[Any]] | None:
    """A container's kind, what else is to be known of it, and its items; None for a leaf (1.12)."""
    kind = pytree._get_node_type(value)
    if kind not in pytree.SUPPORTED_NODES:
        return None
    items, context = pytree.SUPPORTED_NODES[kind].flatten_fn(value)
    return kind, context, list(items)


def rebuild_one_level(like: object, items: list[Any]) -> Any:
    """A container as another one, with other items (`SUPPORTED_NODES`, 1.12)."""
    node = pytree.SUPPORTED_NODES[pytree._get_node_type(like)]
    return node.unflatten_fn(items, node.flatten_fn(like)[1])


def tree_spec(kind: Any, context: Any, children: list[TreeSpec]) -> TreeSpec:
    """The spec of a container, from those of its items (a public constructor in name, 1.12)."""
    return TreeSpec(kind, context, children)


class Tracing:
    """What a non-strict export is doing at this moment, as seen from a hook of a module (`_ModuleStackTracer`, 2.6).

    Attributes:
        tracer: the tracer that writes the graph.
    """

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer

    @staticmethod
    def now() -> Tracing | None:
        """The tracing that is going on, None where there is none, or one inside of a higher-order operator."""
        mode = _get_proxy_mode()
        tracer = getattr(mode, "tracer", None)
        return Tracing(tracer) if hasattr(tracer, "module_stack") else None

    def node(self, value: torch.Tensor) -> torch.fx.Node | None:
        """The node that a tensor is the value of, None where there is none."""
        slot = _get_proxy_slot(value, self.tracer, None)
        if slot is None:
            return None
        node: torch.fx.Node = slot.proxy.node
        return node

    def call(self) -> tuple[str, str]:
        """The innermost module call: its key and the path of its module."""
        key, (path, _) = next(reversed(self.tracer.module_stack.items()))
        return str(key), str(path)

    def last(self) -> torch.fx.Node:
        """The node that was made last; nodes compare by their order."""
        last: torch.fx.Node = next(iter(reversed(self.tracer.graph.nodes)))
        return last


def traced_graph() -> torch.fx.Graph | None:
    """The graph that `make_fx`, or what is built on it, writes at this moment (`get_proxy_mode`, 2.1)."""
    tracer = getattr(_get_proxy_mode(), "tracer", None)
    graph: torch.fx.Graph | None = getattr(tracer, "graph", None)
    return graph


def structure_text(value: object) -> str:
    """How a value nests, for messages."""
    return str(pytree.tree_structure(value)).replace("\n", "")


def python_of(expression: Any, names: Mapping[str, str]) -> str:
    """A sympy expression over sizes as Python, with other names for its symbols (`PythonPrinter`, 2.4)."""
    renamed = {
        symbol: sympy.Symbol(names.get(str(symbol), str(symbol)), integer=True) for symbol in expression.free_symbols
    }
    return str(PythonPrinter().doprint(expression.xreplace(renamed)))


def solve_size(expression: Any, symbol: str, size: str) -> str | None:
    """Python for the symbol, from a size that equals an expression of it; None if it can't be solved (2.1)."""
    wanted = next(found for found in expression.free_symbols if str(found) == symbol)
    given = sympy.Symbol("given_size", integer=True)
    solution = try_solve(sympy.Eq(expression, given), wanted)
    return python_of(solution[1], {}).replace("given_size", f"({size})") if solution else None
