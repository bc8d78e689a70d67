"""Symbolic sizes to prove leaves with, apart from those of the program."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unflatten import _torch

_FAKE_LOG = logging.getLogger(_torch.FakeTensorMode.__module__)


class Sizes:
    """Symbolic sizes of an environment of their own, each standing for one of another program's (2.0).

    What is computed from them can be told in the other's symbols, and no condition that an operator puts on
    them reaches the other.
    """

    def __init__(self) -> None:
        self._made: _torch.ShapeEnv | None = None
        self._own: dict[Any, Any] = {}
        self._theirs: dict[Any, Any] = {}

    @property
    def _env(self) -> _torch.ShapeEnv:
        if self._made is None:
            self._made = _torch.ShapeEnv()
        return self._made

    def like(self, size: Any) -> Any:
        """A size for another program's size."""
        expression = _torch.symbolic_expression(size)
        if expression is None or expression.is_number:
            return size if expression is None else int(expression)
        hints = {symbol: self._hint(size, symbol) for symbol in sorted(expression.free_symbols, key=str)}
        own = expression.xreplace(self._own)
        return self._env.create_symintnode(own, hint=int(expression.subs(hints)), source=None)

    def _hint(self, size: Any, symbol: Any) -> int:
        env = size.node.shape_env
        known = getattr(env, "backed_var_to_val", None) or getattr(env, "var_to_val", {})  # renamed in 2.12
        hint = int(known.get(symbol, 5 + 2 * len(self._own)))
        if symbol not in self._own:
            own = self._env.create_symbol(
                hint,
                _torch.ConstantSource(f"size_{len(self._own)}"),
                dynamic_dim=_torch.DimDynamic.DYNAMIC,
                constraint_dim=None,
                do_not_specialize_zero_one=True,
            )
            self._own[symbol], self._theirs[own] = own, symbol
        return hint

    def translated(self, size: Any) -> Any:
        """The expression of a size in the other program's symbols."""
        return _torch.symbolic_expression(size).xreplace(self._theirs)

    @contextmanager
    def tensors(self) -> Iterator[None]:
        """Where tensors of these sizes are made and used: operators that don't take symbolic sizes do here.

        What fails is not logged; the caller tries otherwise.
        """
        disabled, _FAKE_LOG.disabled = _FAKE_LOG.disabled, True
        try:
            with _torch.FakeTensorMode(shape_env=self._env):
                yield
        finally:
            _FAKE_LOG.disabled = disabled

    @property
    def specialised(self) -> bool:
        """Whether something fixed one of the sizes."""
        return self._made is not None and bool(self._made.replacements)
