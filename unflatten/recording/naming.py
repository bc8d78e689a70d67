"""Classes and functions by name, and back.

What can't be imported under its name, because it was made inside of a function, is found as long as it lives.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable
from functools import reduce
from typing import Any

_local: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def name_of(thing: type | Callable[..., Any]) -> str:
    """A name under which `find` has a class or function."""
    name = f"{thing.__module__}:{thing.__qualname__}"
    if _imported(name) is thing:
        return name
    local = f"{name}#{id(thing)}"
    _local[local] = thing
    return local


def find(name: str) -> Any:
    """What has a name.

    Raises:
        LookupError: nothing has, in this process.
    """
    found = _local.get(name) if "#" in name else _imported(name)
    if found is None:
        raise LookupError(f"{name.partition('#')[0].replace(':', '.')} can't be imported here")
    return found


def _imported(name: str) -> Any:
    module, _, qualname = name.partition(":")
    try:
        loaded = sys.modules.get(module) or importlib.import_module(module)
        return reduce(getattr, qualname.split("."), loaded)
    except (ImportError, AttributeError, ValueError):
        return None
