"""What the caller's `bypass` and `stateful_modules` name, checked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from nir_bridge.errors import ExportError
from nir_bridge.exporting.shadow import uncompiled, walk

Key = str | type[nn.Module]


def chosen(model: nn.Module, keys: Any, what: str) -> dict[int, Any]:
    """The modules that paths and types name, by identity, with what they are mapped to.

    Raises:
        ExportError: a path leads nowhere, or a key is neither a path nor a type.
    """
    if isinstance(keys, str | type | nn.Module):
        keys = (keys,)
    keys = () if keys is None else keys
    if not isinstance(keys, Iterable):
        raise ExportError(f"{what} is a {type(keys).__name__}; give paths of modules, or classes of modules")
    pairs = list(keys.items()) if isinstance(keys, Mapping) else [(key, None) for key in keys]
    found: dict[int, Any] = {}
    for key, value in pairs:
        for module in _named(model, key, what):
            found[id(uncompiled(module))] = value
    return found


def _named(model: nn.Module, key: Any, what: str) -> Iterable[nn.Module]:
    if isinstance(key, nn.Module):
        return [key]
    if isinstance(key, type) and issubclass(key, nn.Module):
        return [module for module in model.modules() if isinstance(module, key)]
    if isinstance(key, str):
        return [_at(model, key, what)]
    raise ExportError(f"{what}: {key!r} is neither the path of a module nor a class of modules")


def _at(model: nn.Module, path: str, what: str) -> nn.Module:
    names: dict[str, nn.Module] = {".".join(parts): module for parts, module in walk(model)}
    if path in names:
        return names[path]
    near = difflib.get_close_matches(path, names, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ExportError(f"{what}: the model has no module {path!r}.{hint}")
