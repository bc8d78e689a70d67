"""The body of a module: what one way of calling it computes, in terms of the module itself.

A `Body` is a small program. Its values are numbered `Local`s, its state and its children are paths from
`self`, and nothing in it names the flat graph that it came from, so that bodies of different calls, and of
different modules, can be compared: `frozen` gives equal keys to bodies that compute the same in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from unflatten._torch import TreeSpec
from unflatten.code.nesting import Access, Made, Rebuilt
from unflatten.flat.packing import pack_target, unpack_target
from unflatten.flat.values import Modes, SubGraph


@dataclass(frozen=True, slots=True)
class Local:
    """A value that a body computes or is given, by number."""

    index: int


@dataclass(frozen=True, slots=True)
class Step:
    """A step along a path of modules and attributes.

    Attributes:
        name: the attribute, index or key.
        how: `"attr"`, `"item"` (of a list), `"key"` (of a dict), or the table of `nn.Module` to look into
            where the name means something else to Python.
    """

    name: str
    how: str = "attr"


@dataclass(frozen=True, slots=True)
class Held:
    """Something that the module, or one inside it, holds; or, from the root, any module of the tree."""

    steps: tuple[Step, ...]
    from_root: bool = False


@dataclass(frozen=True, slots=True)
class Apply:
    """One operator.

    Attributes:
        out: the number of its result.
        target: the callable.
        args, kwargs: constants, containers, `Local`s and `Held`s.
        modes: the modes that a block around it sets.
    """

    out: int
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    modes: Modes = ()

    def __reduce__(self) -> Any:
        packed = pack_target(self.target)
        return _unpack_apply, (self.out, packed, _plain(self.args), _plain(self.kwargs), self.modes)


def _unpack_apply(out: int, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], modes: Modes) -> Apply:
    return Apply(out, unpack_target(target), args, kwargs, modes)


def _plain(value: Any) -> Any:
    """Fx's immutable containers as the ones that they stand for, which pickle without fx."""
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class Invoke:
    """One call of a module.

    Attributes:
        module: the module.
        pick: which of its bodies runs, or None where the module needs no telling.
        guessed: whether the order of the arguments, or of the results, is only likely.
        args, kwargs: as the caller writes them.
        outs: the numbers of the values that are used of the result, with where in the result they are.
        flat: how many values a plain tuple of results has, 0 where the result is something else.
        modes: the modes that a block around the call sets.
    """

    module: Held
    pick: int | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outs: tuple[tuple[int, Access], ...]
    flat: int
    modes: Modes = ()
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of `forward`, the leaves of its argument that the body uses, and whether it can be left out."""

    name: str
    leaves: tuple[tuple[int, Access], ...]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """What one way of calling a module computes.

    Attributes:
        parameters: the parameters of `forward`, without `self`.
        named: whether the names of the parameters are the original's.
        steps: operators and calls, in the order in which they run.
        result: what is returned.
        names: what to call each `Local` in code.
        surplus: whether the result is a tuple of the recorded result and of what else others use of the call.
    """

    parameters: tuple[Parameter, ...]
    named: bool
    steps: tuple[Apply | Invoke, ...]
    result: Any
    names: tuple[str, ...] = field(compare=False)
    surplus: bool = False

    def key(self) -> Hashable:
        """Equal for bodies that compute the same in the same way."""
        shape = tuple((parameter.name if self.named else "", parameter.leaves) for parameter in self.parameters)
        return shape, self.named, self.surplus, tuple(_step_key(step) for step in self.steps), frozen(self.result)


def uses_root(bodies: Iterable[Body]) -> bool:
    """Whether bodies refer to modules that are not inside their own."""
    return any(isinstance(step, Invoke) and step.module.from_root for body in bodies for step in body.steps)


def devices_of(bodies: Iterable[Body]) -> set[torch.device]:
    """The devices that bodies name."""
    found: set[torch.device] = set()
    pending: list[Any] = [(step.args, step.kwargs) for body in bodies for step in body.steps]
    while pending:
        value = pending.pop()
        if isinstance(value, torch.device):
            found.add(value)
        elif isinstance(value, tuple | list):
            pending.extend(value)
        elif isinstance(value, Mapping):
            pending.extend(value.values())
    return found


def _step_key(step: Apply | Invoke) -> Hashable:
    modes = tuple((mode.kind, frozen(mode.value)) for mode in step.modes) if step.modes else ()
    if isinstance(step, Apply):
        return step.out, step.target, frozen(step.args), frozen(step.kwargs) if step.kwargs else (), modes
    return step.module, step.pick, frozen(step.args), frozen(step.kwargs), step.outs, step.flat, modes


def frozen(value: Any) -> Hashable:
    """A hashable stand-in for an argument; equal only for arguments that mean the same.

    `1`, `1.0` and `True` are different, `0.0` and `-0.0` too; two NaNs are alike.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value  # type: ignore[no-any-return]
    if kind in _TYPED:
        return kind, value
    if isinstance(value, tuple | list):
        return "tuple" if isinstance(value, tuple) else "list", tuple([frozen(item) for item in value])
    if isinstance(value, Mapping):
        return "dict", tuple([(frozen(key), frozen(item)) for key, item in value.items()])
    return _frozen_constant(value)


_AS_THEY_ARE = frozenset({Local, Held, str, type(None)})
_TYPED = frozenset({int, bool, bytes, torch.dtype, torch.device, torch.layout, torch.memory_format})


def _frozen_constant(value: Any) -> Hashable:
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, complex):
        return complex, value.real.hex(), value.imag.hex()
    if isinstance(value, slice):
        return slice, frozen(value.start), frozen(value.stop), frozen(value.step)
    if isinstance(value, Rebuilt):
        return Rebuilt, _spec_key(value.spec), frozen(value.leaves)
    if isinstance(value, Made):
        return Made, value.kind, frozen(value.fields)
    if isinstance(value, SubGraph):
        return _graph_key(value.module)
    return type(value), id(value)


def _spec_key(spec: TreeSpec) -> Hashable:
    return spec.type, frozen(spec.context), tuple(_spec_key(child) for child in spec.children())


def _graph_key(module: fx.GraphModule) -> Hashable:
    """The structure of a body graph: its nodes numbered in order, what it holds by identity."""
    number: dict[fx.Node, int] = {}

    def numbered(argument: Any) -> Any:
        return Local(number[argument]) if isinstance(argument, fx.Node) else argument

    key: list[Hashable] = []
    for node in module.graph.nodes:
        target: Hashable = node.target if node.op in ("call_function", "call_method") else node.op
        if node.op in ("get_attr", "call_module"):
            held = _attribute(module, str(node.target))
            target = _graph_key(held) if isinstance(held, fx.GraphModule) else id(held)
        args = fx.map_arg(node.args, numbered)
        kwargs = fx.map_arg(node.kwargs, numbered)
        key.append((node.op, target, frozen(args), frozen(kwargs)))
        number[node] = len(number)
    return tuple(key)


def _attribute(module: fx.GraphModule, target: str) -> Any:
    value: Any = module
    for name in target.split("."):
        value = getattr(value, name)
    return value
