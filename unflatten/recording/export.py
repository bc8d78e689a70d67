"""Exporting a model together with a record of how it calls its modules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from unflatten.errors import NotRecordableError
from unflatten.recording.encoding import Encoder
from unflatten.recording.placing import inputs_of, place_constants, place_sizes, same_values
from unflatten.recording.record import KEY, Record, RecordedModule
from unflatten.recording.recorder import Recorder


def export(
    model: nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    **options: Any,
) -> ExportedProgram:
    """Exports a model as `torch.export.export` does, and records every module call with it.

    `unflatten` makes of such a program modules that take exactly the arguments that the original's took: by
    position or keyword, nested, constants among them, used or not. Classes, `extra_repr()` and plain attributes
    are recorded as well. The record is a part of the program: it is saved, copied and decomposed with it.

    Where a module returns a tensor that it was given, the program has an `aten.alias` of it, so that it shows
    which later uses take the module's result; nothing else in the program differs from torch's.

    Args:
        model: the model. It is left as it is.
        args: positional arguments to capture it with.
        kwargs: keyword arguments likewise.
        dynamic_shapes: which sizes may vary, as `torch.export.export` takes it.
        strict: must be False.
        options: whatever else `torch.export.export` takes.

    Raises:
        NotRecordableError: `strict=True`. Strict export reads the model's bytecode and runs no hooks on calls.
            Or a module has the name of an attribute of its parent's class, such as `double`.

    Example:
        >>> import torch, unflatten
        >>> class Gate(torch.nn.Module):
        ...     def forward(self, x, *, scale=1.0, mask=None):
        ...         return torch.sigmoid(x) * scale
        >>> class Net(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.gate = Gate()
        ...     def forward(self, x):
        ...         return self.gate(x, scale=0.5)
        >>> nested = unflatten.unflatten(unflatten.export(Net(), (torch.zeros(2),)))
        >>> print(nested.code)
        def forward(self, x):
            return self.gate(x, scale=0.5)
    """
    if strict:
        raise NotRecordableError(
            "unflatten.export records calls with module hooks, and strict export does not run a model's modules: it "
            "reads their bytecode. Use strict=False, or torch.export.export(..., strict=True) without a record."
        )
    recorder = Recorder()
    given = dict(kwargs) if kwargs is not None else None
    with recorder.listen(model):
        try:
            program = torch.export.export(model, args, given, dynamic_shapes=dynamic_shapes, strict=False, **options)
        except TypeError as error:
            tell_hidden(error)
            raise
    first: dict[int, str] = {}
    modules = {
        path: _describe(module, path, first.setdefault(id(module), path))
        for path, module in model.named_modules(remove_duplicate=False)
    }
    calls = tuple(call for call in recorder.calls if call is not None)
    sizes, constants = place_sizes(program, recorder.sizes), place_constants(program, recorder.constants)
    places = {**dict(sizes), **dict(constants)}
    same = dict(same_values(program, recorder.count + 1))
    record = Record(modules, calls, {**dict(inputs_of(program)), **places}, same)
    meta = program.graph_module.meta
    meta["custom"] = {**meta.get("custom", {}), KEY: record.dumps()}
    return program


def _describe(module: nn.Module, path: str, first: str) -> RecordedModule:
    encoder = Encoder(lambda _: None)
    own = {name: value for name, value in vars(module).items() if name not in _OWN}
    plain = {name: encoder.encode(value) for name, value in own.items() if _is_plain(value)}
    kind = f"{type(module).__module__}.{type(module).__qualname__}"
    children = list(module._modules) if None in module._modules.values() else []
    own_repr = type(module).__repr__ is not nn.Module.__repr__
    shown = repr(module) if own_repr else ""
    return RecordedModule(
        type=kind,
        text=module.extra_repr(),
        attributes=plain,
        whole=plain.keys() == own.keys(),
        first=None if first == path else first,
        children=children,
        shown=shown if own_repr and not ("\n" in shown and module._modules) else None,
    )


_HIDDEN = re.compile(r"submodule `(.+?)`: .* is not an instance of torch\.nn\.Module", re.DOTALL)


def tell_hidden(error: TypeError) -> None:
    """Tells what torch means where a child's name is that of an attribute of its parent's class.

    Raises:
        NotRecordableError: that is so; anything else is left to the caller.
    """
    hidden = _HIDDEN.match(str(error))
    if hidden is not None:
        raise NotRecordableError(
            f"module {hidden.group(1)!r} has the name of an attribute of its parent's class, and torch.export can't "
            "reach the tensors inside it: give it another name"
        ) from error


_OWN = frozenset(vars(nn.Module()))


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is made of numbers, strings and torch's constants alone."""
    if type(value) in (tuple, list) and depth < 4:
        return all(_is_plain(item, depth + 1) for item in value)
    if type(value) is dict and depth < 4:
        return all(isinstance(key, str) and _is_plain(item, depth + 1) for key, item in value.items())
    return value is None or type(value) in _PLAIN


_PLAIN = frozenset({bool, int, float, str, complex, torch.dtype, torch.device, torch.Size})
