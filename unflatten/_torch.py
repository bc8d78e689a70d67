"""The private names of torch that this package relies on, and nothing else.

Each entry says what it is for and since which release it is there, so that a new torch release is one
file's work. No other module may import a name of torch that starts with an underscore or that torch does
not document; the linter checks the imports.
"""

from __future__ import annotations

import importlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, BinaryIO

import sympy
import torch
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher, no_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._functorch import predispatch
from torch._higher_order_ops.effects import has_effects as _has_effects
from torch._higher_order_ops.effects import with_effects as WITH_EFFECTS
from torch._library.custom_ops import OPDEFS
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.export import ExportedProgram
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, DimDynamic, ShapeEnv
from torch.fx.node import map_aggregate
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.solve import try_solve

__all__ = [
    "SYMPY_INTERP",
    "WITH_EFFECTS",
    "WRAP_AUTOCAST",
    "WRAP_GRAD",
    "ConstantSource",
    "DimDynamic",
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "OpOverload",
    "ShapeEnv",
    "TorchDispatchMode",
    "TreeSpec",
    "guard_sources",
    "has_effects",
    "in_backward",
    "in_transform",
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

# While a graph is traced: the mode that writes it, and the node that stands for a tensor (2.0).
PROXY_MODE, PROXY_SLOT = get_proxy_mode, get_proxy_slot

_LITERAL_CONSTANT = re.compile(r"_?(lifted_tensor|tensor_constant|lifted_custom|torchbind_obj)_?\d+(_\d+)?")
_EMPTY_STACK = "_empty_nn_module_stack_from_metadata_hook"
_GENERATED_MODULES = {"_guards_fn"}


def has_effects(op: object) -> bool:
    """Whether an operator is registered as one whose order matters (2.4; `torch.library` has no reader)."""
    return isinstance(op, OpOverload | HigherOrderOperator) and bool(_has_effects(op))


def symbolic_expression(value: object) -> Any:
    """The sympy expression of a `SymInt`, `SymFloat` or `SymBool`, else None (`.node`, 2.0)."""
    return value.node.expr if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) else None


def registering_module(name: str) -> str:
    """The module that made an operator with `torch.library.custom_op`, else an empty string (`OPDEFS`, 2.4)."""
    definition = OPDEFS.get(name)
    return str(getattr(definition._init_fn, "__module__", "") or "") if definition is not None else ""


def guard_sources(program: ExportedProgram) -> list[str]:
    """The Python conditions on the inputs that the capture relied on (`_guards_code`, 2.9)."""
    return list(getattr(program, "_guards_code", None) or ())


def is_literal_constant(name: str) -> bool:
    """Whether export made up this name for a tensor written out inside of a `forward` (2.1)."""
    return bool(_LITERAL_CONSTANT.fullmatch(name))


def is_generated_module(fqn: str) -> bool:
    """Whether `ExportedProgram.module()` adds a module of this name, which a second export records (2.9)."""
    return fqn in _GENERATED_MODULES


def is_empty_stack(stack: Mapping[Any, Any]) -> bool:
    """Whether a module stack only says that there was none: export names a module that is not there (2.5)."""
    return any(isinstance(value, tuple | list) and value and value[0] == _EMPTY_STACK for value in stack.values())


def as_parameter(data: torch.Tensor, like: torch.nn.Parameter) -> torch.nn.Parameter:
    """A parameter of the class of `like` over `data`; its constructor may want more (`_make_subclass`, 1.0)."""
    made: torch.nn.Parameter = torch.Tensor._make_subclass(type(like), data, like.requires_grad)
    return made


def in_backward() -> bool:
    """Whether the autograd engine is running on this thread: activation recomputation calls modules from it."""
    return torch._C._current_graph_task_id() != -1


def in_transform() -> bool:
    """Whether a `torch.func` transform is going on, so that tensors made now may not outlive it (2.1)."""
    return bool(torch._C._are_functorch_transforms_active())


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


def register_container(
    kind: type, flatten: Callable[[Any], tuple[list[Any], Any]], rebuild: Callable[[Any, Any], Any], name: str
) -> None:
    """Makes a class a pytree whose context is a list of names (`register_pytree_node`, 2.2).

    Args:
        kind: the class.
        flatten: from an object to its items and their names.
        rebuild: from items and names to an object.
        name: what saved programs call the class.
    """
    pytree.register_pytree_node(
        kind,
        flatten,
        rebuild,
        serialized_type_name=name,
        to_dumpable_context=list,
        from_dumpable_context=list,
        flatten_with_keys_fn=lambda value: _with_keys(*flatten(value)),
    )


def _with_keys(items: list[Any], names: Any) -> tuple[list[Any], Any]:
    return [(pytree.MappingKey(name), item) for name, item in zip(names, items, strict=True)], names


def tree_spec(kind: Any, context: Any, children: list[TreeSpec]) -> TreeSpec:
    """The spec of a container, from those of its items (1.12)."""
    return TreeSpec(kind, context, children)


def traced_graph() -> torch.fx.Graph | None:
    """The graph that `make_fx`, or what is built on it, writes at this moment (`get_proxy_mode`, 2.1)."""
    tracer = getattr(get_proxy_mode(), "tracer", None)
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


Recorded = tuple[Any, tuple[Any, ...], Mapping[str, Any], Any, bool]
"""An operator that ran: the callable, its arguments, its result, and whether gradients were recorded."""


class _Recorder(SchemaCheckMode):  # type: ignore[no-untyped-call]
    """Records the operators that export would, those above autograd, while they run on meta tensors.

    Only a few classes of modes may see operators before autograd; this is the one that does the least (2.1).
    """

    def __init__(self, by_python: bool, answer: Callable[[Any], Any] | None) -> None:
        TorchDispatchMode.__init__(self, _dispatch_key=torch._C.DispatchKey.PreDispatch)  # type: ignore[no-untyped-call]
        self.rows: list[Recorded] = []
        self.by_python = by_python
        self.answer = answer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = self.answer(func) if self.answer else None
        if result is None:
            with nullcontext() if self.by_python else no_python_dispatcher():
                result = func(*args, **(kwargs or {}))
        self.rows.append((func, args, kwargs or {}, result, torch.is_grad_enabled()))
        return result


def record(
    function: Callable[[], Any], by_python: bool = False, answer: Callable[[Any], Any] | None = None
) -> tuple[Any, list[Recorded]]:
    """What a function of meta tensors returns, and the operators that it ran (python dispatcher, 2.0).

    Args:
        function: the function.
        by_python: run the decompositions that torch has in Python. They are slower and refuse some arguments, but
            those of recurrent layers take symbolic sizes.
        answer: gives the result of an operator, or None to have it run.
    """
    recorder = _Recorder(by_python, answer)
    with _no_fast_path(), enable_python_dispatcher(), recorder:
        result = function()
    return result, recorder.rows


@contextmanager
def _no_fast_path() -> Iterator[None]:
    """Attention as tracers see it: its fused inference kernel is left out (`torch.backends.mha`, 2.0)."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def map_leaves(value: Any, function: Callable[[Any], Any]) -> Any:
    """A nested value with a function applied to every leaf."""
    return pytree.tree_map(function, value)


def structure(value: Any) -> TreeSpec:
    """How a value nests."""
    return pytree.tree_structure(value)


def memory_id(tensor: torch.Tensor) -> int:
    """Equal for tensors over the same memory while it lives, those without data too (`_cdata`, 2.0)."""
    return int(tensor.untyped_storage()._cdata)


def load_archive(file: BinaryIO) -> Mapping[str, ExportedProgram]:
    """The programs of an archive by name.

    `torch.export.load` tries a second format where the first fails, which would load what nobody looked at
    (`load_pt2`, 2.9).
    """
    archives: Any = importlib.import_module("torch.export.pt2_archive._package")
    log = logging.getLogger("torch._export.serde.serialize")
    with _set(log, disabled=True):  # the warning about trusted pickles is malformed and prints a traceback (2.13)
        found: Mapping[str, ExportedProgram] = archives.load_pt2(file).exported_programs
    return found


def load_parts(program: bytes, state: bytes, constants: bytes, inputs: bytes) -> ExportedProgram:
    """The program of the parts that files had until 2.7 (`torch._export.serde.serialize`, 2.1)."""
    serialize: Any = importlib.import_module("torch._export.serde.serialize")
    found: ExportedProgram = serialize.deserialize(serialize.SerializedArtifact(program, state, constants, inputs))
    return found


@contextmanager
def _set(thing: Any, **values: Any) -> Iterator[None]:
    before = {name: getattr(thing, name) for name in values}
    vars(thing).update(values)
    try:
        yield
    finally:
        vars(thing).update(before)


def size_hint(size: Any) -> int | None:
    """The size that a program was captured with, where a symbolic one tells (`SymNode.hint`, 2.1)."""
    node = size.node
    return int(node.hint) if node.has_hint() else None


def is_composite(op: OpOverload) -> bool:
    """Whether an operator only calls others (`CompositeImplicitAutograd`, 1.9)."""
    return bool(op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


def leaves_with_paths(value: Any) -> list[tuple[str, Any]]:
    """The leaves of a nested value, each with the code that reaches it. `tree_flatten_with_path` since 2.1."""
    return [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(value)[0]]


def is_write(node: torch.fx.Node) -> bool:
    """Whether a node changes one of its arguments, by its schema."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def is_ordered(node: torch.fx.Node) -> bool:
    """Whether a node must keep its place among others of which the same holds: writes, random numbers, checks."""
    target = node.target
    if isinstance(target, OpOverload):
        off = any(argument is False for argument in node.args[2:])
        random = torch.Tag.nondeterministic_seeded in target.tags and not off
        return target._schema.is_mutable or random or not target._schema.returns
    return isinstance(target, HigherOrderOperator)


def set_graph_module(program: ExportedProgram, module: torch.fx.GraphModule) -> None:
    """Gives a program another graph; there is no public way (2.13)."""
    program._graph_module = module


def joint_graph_module(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """The joint graph of AOTAutograd, with descriptors. Since 2.9; torch deprecates what it uses there (2.13)."""
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors  # noqa: PLC0415  # slow to import

    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        return aot_export_joint_with_descriptors(stack, model, args, kwargs).graph_module
