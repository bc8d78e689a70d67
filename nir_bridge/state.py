"""The state of a network: an immutable tree of tensors that mirrors the tree of its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from nir_bridge.errors import StateError
from unflatten.assemble import register_container


class State(Mapping[str, Any]):
    """The state of a module, from its parts by name: states of children, and tensors.

    A part is None where a module starts by itself.

    Parts are in the order of their names. A state is a pytree, so `torch.compile`, `torch.export` and `torch.func`
    take it; it pickles. Parts are reached as attributes, or as items where a name is no identifier; an item can also
    be a path. What a module gave one step ago, where a cycle needs it, is named after the module, with `.out` behind.

    Example:
        >>> state = State(lif1=State(lif=State(v=torch.zeros(2))))
        >>> state.lif1.lif.v
        tensor([0., 0.])
        >>> state["lif1.lif"]["v"].shape
        torch.Size([2])
    """

    _parts: dict[str, Any]
    _mark: tuple[object, tuple[int, ...]] | None = None

    def __init__(self, /, **parts: Any) -> None:
        object.__setattr__(self, "_parts", parts)

    @staticmethod
    def of(names: tuple[str, ...], values: tuple[Any, ...]) -> State:
        """A state from names and as many values; quicker than by keywords."""
        made = object.__new__(State)
        parts = dict(zip(names, values))  # noqa: B905  # to ask whether they are as many takes time at every step
        object.__setattr__(made, "_parts", parts)
        return made

    def __getattr__(self, name: str) -> Any:
        if name == "_parts":  # a copy that is being made asks for it
            raise AttributeError(name)
        parts = self._parts
        if name in parts:
            return parts[name]
        raise AttributeError(f"this state has no {name!r}; it has {', '.join(self)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a state can't be changed; make another one: state.replace({{{name!r}: value}})")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a state can't be changed, so {name!r} stays")

    def __getitem__(self, path: str) -> Any:
        parts = self._parts
        if not isinstance(path, str):
            raise StateError(f"the parts of a state are reached by name or path, not by a {type(path).__name__}")
        return parts[path] if path in parts else _walk(self, path)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._parts))

    def __len__(self) -> int:
        return len(self._parts)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={_shown(value)}" for name, value in self.items())
        return f"State({parts})"

    def __reduce__(self) -> Any:
        return _restore, (self._parts,)

    def take(self, names: tuple[str, ...]) -> tuple[Any, ...]:
        """Parts by name."""
        return tuple(map(self._parts.__getitem__, names))

    def mark(self, plan: object, x: Tensor) -> None:
        """Notes which network made the state, from an input of which shape."""
        object.__setattr__(self, "_mark", (plan, x.shape))

    def pass_on(self, state: State) -> None:
        """Marks another state as this one is."""
        object.__setattr__(state, "_mark", self._mark)

    def follows(self, plan: object, x: object) -> bool:
        """Whether the same network made this state, from an input of the same shape."""
        if torch.compiler.is_dynamo_compiling():
            return False
        mark = self._mark
        return mark is not None and mark[0] is plan and isinstance(x, Tensor) and mark[1] == x.shape

    def map(self, function: Callable[[Tensor], Tensor]) -> State:
        """The same state with every tensor put through a function."""
        return State(**{name: _mapped(value, function) for name, value in self.items()})

    def detach(self) -> State:
        """The state without its history, for truncated backpropagation through time."""
        return self.map(torch.Tensor.detach)

    def to(self, *args: Any, **kwargs: Any) -> State:
        """The state on another device or of another type, as `torch.Tensor.to` takes them."""
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    def replace(self, parts: Mapping[str, Any]) -> State:
        """A state with other values at some paths.

        What cycles of several graphs need of one module is kept for each of them; all of it is replaced.

        Raises:
            StateError: there is nothing at a path.
        """
        if not isinstance(parts, Mapping):
            raise StateError(f"give a mapping from paths to values, not a {type(parts).__name__}")
        made = self
        for path, value in parts.items():
            _walk(made, path)
            for steps in tuple(_places(made, path)):
                made = _replaced(made, steps, value)
        return made

    def tensors(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Every tensor with its path."""
        for name, value in self.items():
            if isinstance(value, State):
                yield from value.tensors(f"{prefix}{name}.")
            elif isinstance(value, Tensor):
                yield prefix + name, value


def nested(parts: Mapping[tuple[str, ...], Any]) -> State:
    """A state from its parts by path."""
    found: dict[str, Any] = {}
    deeper: dict[str, dict[tuple[str, ...], Any]] = {}
    for path, value in parts.items():
        if len(path) == 1:
            found[path[0]] = value
        else:
            deeper.setdefault(path[0], {})[path[1:]] = value
    for name, inner in deeper.items():
        found[name] = nested(inner)
    return State(**found)


def at_path(state: State, path: tuple[str, ...]) -> Any:
    """A part of a state."""
    value: Any = state
    for name in path:
        value = value._parts[name] if isinstance(value, State) else value[name]
    return value


def _restore(parts: dict[str, Any]) -> State:
    return State(**parts)


def _shown(value: Any) -> str:
    return f"tensor{tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)


def _mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, State):
        return value.map(function)
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple | list):
        return type(value)(_mapped(item, function) for item in value)
    return value


def _walk(state: State, path: str) -> Any:
    """What is at a path."""
    steps = next(_places(state, path), None)
    if steps is None:
        raise StateError(f"the state has nothing at {path!r}; it has {', '.join(state)}")
    return at_path(state, steps)


def _places(state: Any, path: str) -> Iterator[tuple[str, ...]]:
    """The parts that a path goes through; the names of parts may hold dots, so that there may be several ways."""
    if not isinstance(state, State):
        return
    parts = dict(state)
    if path in parts:
        yield (path,)
    for name in sorted(parts, key=len, reverse=True):
        if path.startswith(f"{name}."):
            yield from ((name, *rest) for rest in _places(parts[name], path[len(name) + 1 :]))


def _replaced(state: State, steps: tuple[str, ...], value: Any) -> State:
    inner = value if len(steps) == 1 else _replaced(dict(state)[steps[0]], steps[1:], value)
    return State(**{**dict(state), steps[0]: inner})


def _flatten(state: State) -> tuple[list[Any], list[str]]:
    return list(state.values()), list(state)


def _unflatten(parts: Any, names: list[str]) -> State:
    return State(**dict(zip(names, parts, strict=True)))


register_container(State, _flatten, _unflatten, "nir_bridge.State")
