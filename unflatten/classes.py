"""Generating the class of an unflattened module from its definition."""

from __future__ import annotations

import builtins
import itertools
import linecache
import weakref
from collections.abc import Callable, Mapping
from types import new_class
from typing import Any

import torch
from torch import nn

from unflatten import _torch
from unflatten.calls.known import BODY
from unflatten.code.codegen import Code
from unflatten.fields import make
from unflatten.info import offered
from unflatten.modules import DEFINITION, PLACE, RECONSTRUCT, Definition, UnflattenedModule, guess, moved, pick, root

_HELPERS: Mapping[str, Any] = {
    "torch": torch,
    "F": torch.nn.functional,
    "moved": moved,
    "pick": pick,
    "guess": guess,
    "root": root,
    "rebuild": _torch.rebuild,
    "leaves": _torch.tree_leaves,
    "make": make,
}


_made: weakref.WeakKeyDictionary[Definition, type[UnflattenedModule]] = weakref.WeakKeyDictionary()


def class_of(definition: Definition) -> type[UnflattenedModule]:
    """The class of a definition, the same one each time."""
    if definition not in _made:
        _made[definition] = _make_class(definition)
    return _made[definition]


def reconstruct(definition: Definition) -> UnflattenedModule:
    """An empty module of a definition's class, for unpickling."""
    cls = class_of(definition)
    return cls.__new__(cls)


def new_module(definition: Definition) -> UnflattenedModule:
    """An empty module of a definition's class; the original's `__init__` does not run."""
    made = reconstruct(definition)
    nn.Module.__init__(made)
    return made


def _make_class(definition: Definition) -> type[UnflattenedModule]:
    functions = [_compile(code, definition.name) for code in definition.codes()]
    members: dict[str, Any] = {
        "__module__": UnflattenedModule.__module__,
        "__qualname__": definition.name,
        DEFINITION: definition,
        RECONSTRUCT: reconstruct,
    }
    members.update(offered(definition.taken))
    surplus = [body.surplus for body in definition.bodies]
    if len(functions) == 1 and not any(surplus):
        members["forward"] = functions[0]
    elif functions:
        members["forward"] = _dispatcher(functions, surplus)
    bases: tuple[type, ...] = (definition.base,)
    if definition.original is not None:
        bases = (definition.base, definition.original)
        members["__abstractmethods__"] = frozenset()
    cls: type[UnflattenedModule] = new_class(definition.name, bases, exec_body=lambda space: space.update(members))
    return cls


def _dispatcher(functions: list[Callable[..., Any]], surplus: list[bool]) -> Callable[..., Any]:
    """The `forward` of a module that is called in several ways, or gives its parent more than it returned."""

    def forward(self: UnflattenedModule, *args: Any, **kwargs: Any) -> Any:
        body = kwargs.pop(BODY, None)
        if body is None:
            args, kwargs = self.__dict__[PLACE].admit(args, kwargs)
            body = kwargs.pop(BODY)
        if body >= 0:
            return functions[body](self, *args, **kwargs)
        result = functions[~body](self, *args, **kwargs)
        return result[0] if surplus[~body] else result

    return forward


_count = itertools.count()


def _compile(code: Code, owner: str) -> Callable[..., Any]:
    """Compiles a body; tracebacks and `inspect` find its source."""
    filename = f"<unflattened {owner} {next(_count)}>"
    renamed = {name: _HELPERS.get(helper, getattr(builtins, helper, None)) for name, helper in code.renamed.items()}
    namespace = {**_HELPERS, **code.objects, **renamed}
    exec(compile(code.source, filename, "exec"), namespace)
    function: Callable[..., Any] = namespace[code.source.split("(")[0].removeprefix("def ")]
    linecache.cache[filename] = (len(code.source), None, code.source.splitlines(keepends=True), filename)
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function
