"""A series can be cut anywhere, and continued from the state."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nir_bridge import NIRModule, State
from unflatten.testing.comparing import Difference
from unflatten.testing.failing import check
from unflatten.testing.nir.comparing import value_differences

Inputs = Mapping[str, Tensor]


def assert_split_invariant(net: NIRModule, xs: Any, *, tolerance: float | None = None) -> None:
    """A series gives the same in one go, in single steps, and cut anywhere and continued from the state.

    The state that it is continued from is also copied, pickled and saved to a file first. Steps agree bit for bit;
    layer by layer, results may be rounded otherwise.

    Args:
        net: the network.
        xs: the inputs, time first, as `net.run` takes them.
        tolerance: how far layer by layer and step by step may be apart; None for what the type of numbers allows.

    Raises:
        DifferenceError: outputs or states differ; it says at which cut, and in which module's state.

    Example:
        >>> import nir, numpy as np
        >>> from nir_bridge import from_nir
        >>> assert_split_invariant(from_nir(nir.NIRGraph.from_list(nir.I(np.ones(1)))), torch.ones(3, 1))
    """
    with torch.no_grad():
        found = list(_Series(net, _by_name(net, xs)).differences(tolerance))
    check(found, "a series depends on how it is cut", "assert_split_invariant", net=net, xs=xs, tolerance=tolerance)


def _by_name(net: NIRModule, xs: Any) -> dict[str, Tensor]:
    if isinstance(xs, Mapping):
        return dict(xs)
    given = (xs,) if isinstance(xs, Tensor) else tuple(xs)
    return dict(zip([port.name for port in net.__dict__["@nir"].ports], given, strict=True))


@dataclass(frozen=True)
class _Series:
    net: NIRModule
    xs: Inputs

    @property
    def length(self) -> int:
        return next(iter(self.xs.values())).shape[0]

    def run(self, first: int, last: int, state: State | None, layerwise: bool) -> tuple[Any, State]:
        inputs = {name: values[first:last] for name, values in self.xs.items()}
        ys, state = self.net.run(inputs, state, layerwise=layerwise)[:2]
        return ys, state

    def differences(self, tolerance: float | None) -> Iterator[Difference]:
        """Everything in which ways to run the series differ."""
        example = next(iter(self.xs.values()))
        allowed = torch.finfo(example.dtype).eps * 64 if tolerance is None else tolerance
        ys, state = self.run(0, self.length, None, False)
        yield from _both("in single calls", (ys, state), self.called(), 0.0)
        yield from _both("layer by layer", (ys, state), self.run(0, self.length, None, True), allowed)
        for cut in range(1, self.length):
            for layerwise in (False, True):
                first, middle = self.run(0, cut, None, layerwise)
                how = f"cut before step {cut}{', layer by layer' * layerwise}"
                for name, way in (_WAYS if cut == self.length // 2 else {"": _as_it_is}).items():
                    last, end = self.run(cut, self.length, way(middle), layerwise)
                    whole = _joined(first, last)
                    yield from _both(f"{how}{name}", (ys, state), (whole, end), allowed if layerwise else 0.0)

    def called(self) -> tuple[Any, State]:
        """Single calls, one after the other."""
        outputs: list[Any] = []
        state: Any = None
        for time in range(self.length):
            y, state = self.net(*(self.xs[port.name][time] for port in self.net.__dict__["@nir"].ports), state)
            outputs.append(y)
        if isinstance(outputs[0], dict):
            return {name: torch.stack([y[name] for y in outputs]) for name in outputs[0]}, state
        return torch.stack(outputs), state


def _as_it_is(state: State) -> State:
    return state


def _saved(state: State) -> State:
    file = io.BytesIO()
    torch.save(state, file)
    loaded: State = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    return loaded


_WAYS: dict[str, Callable[[State], State]] = {
    "": _as_it_is,
    ", from a deep copy of the state": copy.deepcopy,
    ", from the pickled state": lambda state: pickle.loads(pickle.dumps(state)),  # noqa: S301  # its own
    ", from the saved state": _saved,
}


def _joined(first: Any, last: Any) -> Any:
    if isinstance(first, dict):
        return {name: torch.cat([first[name], last[name]]) for name in first}
    return torch.cat([first, last])


def _both(how: str, expected: tuple[Any, State], given: tuple[Any, State], tolerance: float) -> list[Difference]:
    found = value_differences(expected[0], given[0], "output", tolerance)
    found += value_differences(expected[1], given[1], "state at the end", tolerance)
    return [replace(item, where=f"{item.where}, {how}") for item in found]
