"""What a non-strict export is doing at this moment."""

from __future__ import annotations

from typing import Any

import torch

from unflatten import _torch


class Tracing:
    """What a non-strict export is doing at this moment, as seen from a hook of a module (`_ModuleStackTracer`, 2.6).

    Attributes:
        tracer: the tracer that writes the graph.
    """

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer

    @staticmethod
    def now() -> Tracing | None:
        """The tracing that is going on, None where there is none, or one inside of a higher-order operator."""
        mode = _torch.PROXY_MODE()
        tracer = getattr(mode, "tracer", None)
        return Tracing(tracer) if hasattr(tracer, "module_stack") else None

    def node(self, value: torch.Tensor) -> torch.fx.Node | None:
        """The node that a tensor is the value of, None where there is none."""
        slot = _torch.PROXY_SLOT(value, self.tracer, None)
        if slot is None:
            return None
        node: torch.fx.Node = slot.proxy.node
        return node

    def call(self) -> tuple[str, str]:
        """The innermost module call: its key and the path of its module."""
        key, (path, _) = next(reversed(self.tracer.module_stack.items()))
        return str(key), str(path)

    def last(self) -> torch.fx.Node:
        """The node that was made last; nodes compare by their order."""
        return next(iter(reversed(self.tracer.graph.nodes)))  # type: ignore[no-any-return]
