"""The JSON of a program, looked at before torch makes code of it.

torch writes Python from what is in there: names of inputs and of state become source, sizes and guards are
evaluated, the structure of arguments imports modules, and operators are looked up by dotted names that can lead to
any function.
"""

from __future__ import annotations

import json
import math
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch

from unflatten import _torch
from unflatten.errors import UntrustedFileError
from unflatten.files.expressions import is_guard, is_size

_NAME = re.compile(r"[\w.]*")
_NOT_IN_CODE = re.compile(r'["\\\x00-\x1f\x7f]')
_FACTORIES = ("list", "dict", "set", "tuple", "int", "float", "str", "bool")
_TRANSFORMS = "_functorch.predispatch."
_MAKES_FUNCTIONS = ("attrgetter", "itemgetter", "methodcaller", "call")
_STATE_NAMES = ("parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name")


def check_text(name: str, data: bytes) -> None:
    """Makes sure that nothing in a program's JSON can become code.

    Args:
        name: what it is, for messages.
        data: the JSON.

    Raises:
        UntrustedFileError: something could.
    """
    stack: list[Any] = [json.loads(data.decode())]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for key, value in item.items():
                _check(name, key, value)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _check(where: str, key: str, value: Any) -> None:
    rule = _RULES.get(key)
    if rule is None:
        return
    what, allowed = rule
    for text in value if isinstance(value, list) else (value,):
        if isinstance(text, str) and not allowed(text):
            shown = text if len(text) <= 80 else f"{text[:80]}..."
            raise UntrustedFileError(f"in {where}, {what} is {shown!r}, which could run code")


@lru_cache(maxsize=1 << 12)
def _is_operator(target: str) -> bool:
    """Whether a node calls an operator, and not just any function that a dotted name leads to."""
    first, _, rest = target.partition(".")
    if target.startswith("#"):
        return True  # a name in a registry, which holds what this process put there
    if first == "_operator":
        return rest in operator.__all__ and rest not in _MAKES_FUNCTIONS
    if first == "math":
        return callable(getattr(math, rest, None))
    if target.startswith("torch.ops."):
        return _is_harmless_operator(target.split(".")[2:])
    if rest.startswith(_TRANSFORMS):
        return _is_transform(rest.removeprefix(_TRANSFORMS))
    return first == "torch" and "." not in rest and rest.lstrip("_").startswith("sym_")


def _is_transform(name: str) -> bool:
    """Whether a name is of what `torch.func` transforms leave in a graph."""
    found = getattr(_torch.predispatch, name, None)
    return isinstance(found, FunctionType) and found.__module__.startswith("torch._functorch.")


def _is_harmless_operator(names: list[str]) -> bool:
    found: Any = torch.ops
    for name in names:
        found = getattr(found, name, None)
    if found is None:
        return len(names) <= 3  # not known here: torch says so, and does not call it
    if isinstance(found, _torch.OpOverload):
        return not any(argument.name in ("filename", "path") for argument in found._schema.arguments)
    return isinstance(found, _torch.HigherOrderOperator)


def _is_structure(text: str) -> bool:
    """Whether the spec of a pytree imports nothing and makes no function of a name."""
    _, spec = json.loads(text)
    return all(map(_is_harmless_node, _nodes(spec))) and _has_plain_keywords(spec)


def _nodes(spec: Any) -> Iterator[Mapping[str, Any]]:
    stack = [spec]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node["children_spec"])


def _is_harmless_node(node: Mapping[str, Any]) -> bool:
    context = node["context"]
    if node["type"] == "collections.defaultdict":
        module, factory = context.get("default_factory_module"), context.get("default_factory_name")
        return module is None or (module == "builtins" and factory in _FACTORIES)
    if isinstance(context, str) and "__enum__" in context:
        return all(module in sys.modules for module in re.findall(r'"fqn":\s*"([^":]*)', context))
    return True


def _has_plain_keywords(spec: Mapping[str, Any]) -> bool:
    """Whether the keywords of a call, which become parameters, are names."""
    children = spec["children_spec"]
    if spec["type"] != "builtins.tuple" or len(children) != 2 or children[1]["type"] != "builtins.dict":
        return True
    return all(_NAME.fullmatch(str(key)) for key in json.loads(children[1]["context"]))


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _is_quotable(text: str) -> bool:
    return _NOT_IN_CODE.search(text) is None


_RULES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "expr_str": ("a size", is_size),
    "guards_code": ("a guard", is_guard),
    "target": ("what a node calls", _is_operator),
    "in_spec": ("the structure of arguments", _is_structure),
    "out_spec": ("the structure of results", _is_structure),
    "name": ("a name", _is_name),
    "as_name": ("a name", _is_name),
    "forward_arg_names": ("a name of an argument", lambda text: _NAME.fullmatch(text.lstrip("*")) is not None),
    **dict.fromkeys(_STATE_NAMES, ("a name of a parameter, buffer or constant", _is_quotable)),
}
