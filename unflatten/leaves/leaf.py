"""One call of a leaf module as a recogniser sees it, and what it answers."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from unflatten import _torch
from unflatten.code.body import Local
from unflatten.flat.operators import values_in
from unflatten.flat.values import FlatInput, FlatNode, Source, Value


@dataclass(frozen=True, slots=True)
class StateSpec:
    """What a module holds under one name.

    Attributes:
        source: parameter or buffer.
        persistent: whether the state dict holds it.
        tensor: the tensor itself, not to be written; anything else where the source is no parameter or buffer.
    """

    source: Source
    persistent: bool
    tensor: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return tuple(self.tensor.shape)


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a call, its arguments by name.

    Attributes:
        node: the operator.
        name: its name without namespace and overload, such as `linear`.
        arguments: every argument of its schema, defaults included.
    """

    node: FlatNode
    name: str
    arguments: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def list(self, name: str) -> tuple[Any, ...]:
        """A list argument as a tuple."""
        return tuple(self.arguments[name] or ())


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a call may be a call of.

    Attributes:
        kwargs: the arguments of the constructor.
        args: the positional arguments of the call; None for the default: the values that the only
            operator is given, or all values that the call is given, in the order of their use.
        call_kwargs: the keyword arguments of the call.
        training: the mode that the module must have been in, None where the operators tell.
    """

    kwargs: Mapping[str, Any] = field(default_factory=dict)
    args: tuple[Any, ...] | None = None
    call_kwargs: Mapping[str, Any] = field(default_factory=dict)
    training: bool | None = None


@dataclass(frozen=True, eq=False)
class Leaf:
    """One call of a module that calls no other.

    Attributes:
        nodes: its operators, in an order in which they can run.
        inputs: what it is given that it does not hold, in the order of first use.
        outputs: what is used of it outside.
        state: what the module holds, by name.
        held: the names of the graph inputs that stand for its state.
        given_as: what stands for the values that come from outside.
    """

    nodes: tuple[FlatNode, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[FlatNode, ...]
    state: Mapping[str, StateSpec]
    held: Mapping[FlatInput, str]
    given_as: Mapping[Value, Local]

    def operators(self) -> Iterator[Operator]:
        """The operators of the call that have a schema."""
        for node in self.nodes:
            found = operator_of(node)
            if found is not None:
                yield found

    def find(self, *names: str) -> Operator | None:
        """The first operator of one of these names, in place or not (`relu` finds `relu_`)."""
        return next((found for found in self.operators() if found.name.removesuffix("_") in names), None)

    def names(self) -> set[str]:
        """The names of all operators of the call."""
        return {name_of(node) for node in self.nodes}

    def given(self, *values: Any) -> tuple[Any, ...]:
        """Those of some arguments that are values from outside, and not the module's own state, in order."""
        return tuple(value for value in values_in(values) if value in self.given_as)

    def shape(self, value: Any) -> tuple[Any, ...]:
        """The sizes of a value of the graph; empty where they are not known."""
        tensor = value.meta.get("val") if isinstance(value, FlatNode | FlatInput) else None
        return tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else ()

    def origin(self, value: Any) -> Any:
        """The value from outside that one of the call is made of, first argument by first argument, or None."""
        item = 0
        while isinstance(value, FlatNode) and value not in self.given_as:
            if value.target is operator.getitem:
                item = value.args[1]
            value = value.args[0] if value.args and value in self.nodes else None
            if isinstance(value, tuple | list):
                value, item = (value[item] if item < len(value) else None), 0
        return value if isinstance(value, FlatNode | FlatInput) and value in self.given_as else None

    def user_arguments(self) -> tuple[Any, ...]:
        """The arguments of the call where nothing else tells."""
        if len(self.nodes) == 1:
            node = self.nodes[0]
            return self.given(*node.args, *node.kwargs.values())
        return self.inputs


def name_of(node: FlatNode) -> str:
    """The name of an operator without namespace and overload."""
    if isinstance(node.target, _torch.OpOverload):
        return str(node.target._schema.name.partition("::")[2])
    return str(getattr(node.target, "__name__", ""))


def operator_of(node: FlatNode) -> Operator | None:
    """An operator with its arguments by name; None where it has no schema."""
    if not isinstance(node.target, _torch.OpOverload):
        return None
    return Operator(node, name_of(node), arguments_of(node.target, node.args, node.kwargs))


def arguments_of(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an operator by name, with its defaults where none is given."""
    found = dict(_defaults(target))
    found.update(zip(found, args, strict=False))
    found.update(kwargs)
    return found


@cache
def _defaults(target: Any) -> Mapping[str, Any]:
    return {argument.name: argument.default_value for argument in target._schema.arguments}
