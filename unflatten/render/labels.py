"""Short text for what nodes do and give."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import fx

from unflatten._torch import OpOverload

_TYPES: Mapping[torch.dtype, str] = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
_LONG = 200
_ITEMS = 3
_FRAME = re.compile(r'File "([^"\n]*)", line (\d+), in [^\n]*\n +([^\n]+)')


def type_text(dtype: torch.dtype) -> str:
    """A short name of a type.

    >>> type_text(torch.float32), type_text(torch.float8_e4m3fn)
    ('f32', 'float8_e4m3fn')
    """
    return _TYPES.get(dtype) or str(dtype).removeprefix("torch.")


def value_text(value: Any) -> str:
    """The shape and type of a value; empty where they are not known.

    >>> value_text(torch.ones(2, 8)), value_text(torch.tensor(True)), value_text((torch.ones(1), torch.ones(2)))
    ('2x8 f32', 'scalar bool', '(1 f32, 2 f32)')
    """
    if isinstance(value, torch.Tensor):
        return f"{'x'.join(map(str, value.shape)) or 'scalar'} {type_text(value.dtype)}"
    if isinstance(value, tuple | list):
        texts = [text for item in value[:_ITEMS] if (text := value_text(item))]
        more = [f"{len(value) - _ITEMS} more"] if len(value) > _ITEMS else []
        return f"({', '.join([*texts, *more])})" if texts else ""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | bool | int | float):
        return cut(str(value), 40)
    return ""


def meta_value(meta: Mapping[str, Any]) -> str:
    """The shape and type of what a node gives, by its metadata."""
    found = meta["val"] if "val" in meta else meta.get("example_value")
    if found is None and hasattr(meta.get("tensor_meta"), "shape"):
        known = meta["tensor_meta"]
        return f"{'x'.join(map(str, known.shape)) or 'scalar'} {type_text(known.dtype)}"
    return value_text(found)


def op_text(target: Any) -> str:
    """The short name of what a node calls.

    >>> op_text(torch.ops.aten.add.Tensor), op_text(torch.relu), op_text("view")
    ('add', 'relu', 'view')
    """
    if isinstance(target, OpOverload):
        return str(target).split(".")[1]
    return target if isinstance(target, str) else str(getattr(target, "__name__", type(target).__name__))


def target_text(target: Any) -> str:
    """The full name of what a node calls; no text of this has an address in it.

    >>> target_text(torch.ops.aten.add.Tensor), target_text(torch.relu)
    ('aten.add.Tensor', 'torch.relu')
    """
    if isinstance(target, OpOverload | str):
        return str(target)
    module = getattr(target, "__module__", None) or ""
    name = op_text(target)
    return f"{module}.{name}" if module and module != "builtins" else name


def argument_text(value: Any) -> str:
    """An argument of a node, with nodes by name; long ones are cut."""
    return cut(_written(value, 3), _LONG)


def _written(value: Any, depth: int) -> str:
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, tuple | list) and depth:
        inner = ", ".join(_written(item, depth - 1) for item in value[:20])
        more = ", ..." if len(value) > 20 else ""
        return f"[{inner}{more}]" if isinstance(value, list) else f"({inner}{more})"
    if isinstance(value, Mapping) and depth:
        return "{" + ", ".join(f"{key}: {_written(item, depth - 1)}" for key, item in list(value.items())[:20]) + "}"
    if isinstance(value, str | int | float | complex | bool | None):
        return cut(repr(value), _LONG)
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format | torch.SymInt | slice):
        return str(value)
    name = getattr(value, "name", None)  # values of a flat program
    return name if isinstance(name, str) else type(value).__name__


def arguments_text(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """All arguments of a node as a call has them."""
    texts = [argument_text(value) for value in args]
    texts += [f"{name}={argument_text(value)}" for name, value in kwargs.items()]
    return cut(", ".join(texts), 3 * _LONG)


def body_text(body: fx.GraphModule) -> str:
    """What the body of a branch or loop computes.

    >>> body_text(fx.symbolic_trace(lambda x: (x + 1).relu()))
    '2 nodes: add, relu'
    """
    ops = [op_text(node.target) for node in body.graph.nodes if node.op.startswith("call")]
    return cut(f"{len(ops)} node{'s' if len(ops) != 1 else ''}: {', '.join(ops)}", _LONG)


def source_text(meta: Mapping[str, Any]) -> str:
    """The line of Python that a node came from; the folder is left out, since it is nobody's business."""
    trace = meta.get("stack_trace")
    return _last_line(trace) if isinstance(trace, str) else ""


@lru_cache(maxsize=4096)
def _last_line(trace: str) -> str:
    frames = _FRAME.findall(trace)
    if not frames:
        return ""
    file, line, code = frames[-1]
    return cut(f"{os.path.basename(file)}:{line}  {code}", _LONG)  # noqa: PTH119  # the path may be another system's


def cut(text: str, size: int) -> str:
    """A text of at most a size.

    >>> cut("abcdefgh", 5), cut("abc", 5)
    ('ab...', 'abc')
    """
    return text if len(text) <= size else text[: size - 3] + "..."
