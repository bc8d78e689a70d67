"""Modules of `torch.nn` as calls of their constructors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from unflatten.code.body import frozen
from unflatten.errors import SourceError
from unflatten.source.expressions import Literal, New

_SKIPPED = frozenset({"device", "dtype", "_weight", "_bias", "_freeze", "args", "kwargs"})
_BIAS = frozenset({"bias"})

_READ: Mapping[tuple[type[nn.Module], str], Callable[[Any], Any]] = {
    (nn.MultiheadAttention, "bias"): lambda module: module.in_proj_bias is not None,
    (nn.MultiheadAttention, "add_bias_kv"): lambda module: module.bias_k is not None,
    (nn.MultiheadAttention, "dropout"): lambda module: module.dropout,
    (nn.RNN, "nonlinearity"): lambda module: module.mode.removeprefix("RNN_").lower(),
    (nn.PairwiseDistance, "p"): lambda module: module.norm,
}
"""Arguments that the module does not keep under their own names."""

_NONLINEARITY = inspect.Parameter("nonlinearity", inspect.Parameter.KEYWORD_ONLY, default="tanh")


def is_of_torch(module: nn.Module) -> bool:
    """Whether a module's class is one of torch's own."""
    kind = type(module)
    return kind.__module__.startswith("torch.nn.modules.") and getattr(nn, kind.__name__, None) is kind


def constructed(module: nn.Module, where: str) -> New:
    """The call that makes a module like this one.

    Args:
        module: of a class of `torch.nn`.
        where: its path, for messages.

    Raises:
        SourceError: no call of the constructor makes such a module.
    """
    kind = type(module)
    arguments = dict(_arguments(module))
    _check(module, arguments, where)
    arguments = {name: _one_for_all(module, arguments, name) for name in arguments}
    positional, named, defaults = [], [], []
    for parameter in _parameters(kind):
        if parameter.name not in arguments:
            continue
        value = arguments[parameter.name]
        site = (parameter.name, Literal(value))
        if parameter.default is inspect.Parameter.empty:
            positional.append(site)
        else:
            named.append(site)
            defaults.append(frozen(parameter.default))
    return New(f"nn.{kind.__name__}", tuple(positional), tuple(named), tuple(defaults))


def _parameters(kind: type[nn.Module]) -> tuple[inspect.Parameter, ...]:
    base = nn.RNNBase if issubclass(kind, nn.RNNBase) else kind
    found = list(inspect.signature(base).parameters.values())
    if base is nn.RNNBase:
        found = [parameter for parameter in found if parameter.name != "mode"]
    if kind is nn.RNN:
        found.append(_NONLINEARITY)
    if base is nn.RNNBase and kind is not nn.LSTM:
        found = [parameter for parameter in found if parameter.name != "proj_size"]
    return tuple(parameter for parameter in found if parameter.name not in _SKIPPED)


def _arguments(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for parameter in _parameters(type(module)):
        name = parameter.name
        read = _READ.get((type(module), name))
        if read is not None:
            yield name, read(module)
        elif name in module.__dict__:
            yield name, module.__dict__[name]
        elif name in module._parameters or name in module._buffers:
            held = getattr(module, name)
            if name in _BIAS:
                yield name, held is not None
        elif name in _BIAS:
            yield name, getattr(module, name, None) is not None


def _one_for_all(module: nn.Module, arguments: Mapping[str, Any], name: str) -> Any:
    """An argument as one number for all dimensions, where that makes the same module."""
    value = arguments[name]
    if not isinstance(value, tuple) or not value or type(value[0]) is not int or len(set(value)) != 1:
        return value
    made = _made(module, {**arguments, name: value[0]})
    return value[0] if made is not None and _summary(made) == _summary(module) else value


def _made(module: nn.Module, arguments: Mapping[str, Any]) -> nn.Module | None:
    try:
        with torch.device("meta"):
            return type(module)(**arguments)
    except (TypeError, ValueError, RuntimeError):
        return None


def _check(module: nn.Module, arguments: Mapping[str, Any], where: str) -> None:
    """Whether these arguments make a module that holds and says the same."""
    made = _made(module, arguments)
    if made is None or _summary(made) != _summary(module):
        raise _refused(module, where)


def _summary(module: nn.Module) -> Any:
    plain = {
        name: frozen(value)
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and not isinstance(value, torch.Tensor)
    }
    held = {
        name: None if tensor is None else tuple(tensor.shape)
        for table in (module._parameters, module._buffers)
        for name, tensor in table.items()
    }
    inner = {name: child and _summary(child) for name, child in module._modules.items()}
    return type(module), plain, held, sorted(module._non_persistent_buffers_set), inner


def _refused(module: nn.Module, where: str) -> SourceError:
    return SourceError(
        f"{where or 'the root'} is a {type(module).__name__} that no call of its constructor makes: it was changed "
        "afterwards. Unflatten the program with native_leaves=False to have its code written instead."
    )
