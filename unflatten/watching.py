"""Seeing every operator that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unflatten._torch import TorchDispatchMode


class OperatorWatch(TorchDispatchMode):
    """Shows every operator that runs, with its arguments, to a function.

    Those, too, that no function of torch shows: of code that is mapped over a batch, scripted, or written in C++.
    """

    def __init__(self, seen: Callable[[str, Any, Any], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen(str(func), args, kwargs or {})
        return func(*args, **(kwargs or {}))
