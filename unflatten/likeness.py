"""Taking classes and plain attributes from the live model that a program was exported from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

from unflatten.analysis import Analysis
from unflatten.errors import UnlikeError, listing
from unflatten.modules import UnflattenedModule
from unflatten.paths import ModulePath

_OWN = frozenset(vars(nn.Module()))
_NOT_DERIVABLE = (torch.jit.ScriptModule, fx.GraphModule, UnflattenedModule)


def live_modules(model: nn.Module, analysis: Analysis) -> dict[ModulePath, nn.Module]:
    """The modules of a model, by the paths of a program.

    Raises:
        UnlikeError: the model lacks some of them.
    """
    live = {ModulePath.parse(name): module for name, module in model.named_modules(remove_duplicate=False)}
    missing = [f"module {str(path)!r}" for path in analysis.program.paths if path not in live]
    missing += [
        f"{entry.source.value} {str(entry.owner / entry.name)!r}"
        for entry in analysis.state.entries
        if entry.persistent and entry.owner in live and not hasattr(live[entry.owner], entry.name)
    ]
    if missing:
        raise UnlikeError(
            f"`like` is a {type(model).__name__} that lacks what the program has:\n{listing(missing)}\n"
            "Give the model that was exported, or one that was made like it."
        )
    return live


def original_class(module: nn.Module | None) -> type[nn.Module] | None:
    """The class to derive from, None where there is no live module, or one that can't be derived from."""
    if module is None or isinstance(module, _NOT_DERIVABLE) or type(module) is nn.Module:
        return None
    return type(module)


def give_attributes(made: Mapping[ModulePath, nn.Module], live: Mapping[ModulePath, nn.Module]) -> None:
    """Sets the plain attributes of live modules, by reference, on the modules made for them.

    Where an attribute is one of the live modules, or a list, tuple or dict of them, the made ones take their place.
    """
    twins = {id(module): made[path] for path, module in live.items() if path in made}
    for path, module in live.items():
        if path not in made:
            continue
        own = made[path]
        for name, value in vars(module).items():
            if name in _OWN or name in own._parameters or name in own._buffers or name in own._modules:
                continue
            if isinstance(value, torch.Tensor) and name in own.__dict__:
                continue  # a constant of the program, which is there already
            own.__dict__[name] = _translated(value, twins)


def _translated(value: Any, twins: Mapping[int, nn.Module]) -> Any:
    if isinstance(value, nn.Module):
        return twins.get(id(value), value)
    items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    if not any(isinstance(item, nn.Module) for item in items):
        return value
    if type(value) is dict:
        return {key: _translated(item, twins) for key, item in value.items()}
    return type(value)(_translated(item, twins) for item in value)
