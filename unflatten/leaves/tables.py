"""Recognisers of modules whose call is one operator with arguments of the constructor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from unflatten.leaves.leaf import Leaf, Operator, Proposal
from unflatten.leaves.registry import register

Read = str | Callable[[Leaf, Operator], Any]
"""Where an argument of a constructor is: the name of an argument of the operator, or a function that finds it."""


@dataclass(frozen=True, slots=True)
class Row:
    """How to recognise one class.

    Attributes:
        operator: the operator's name, without the underscore of its in-place form.
        parameters: the arguments of the constructor.
        inplace: whether the constructor takes `inplace`.
    """

    operator: str
    parameters: Mapping[str, Read] = field(default_factory=dict)
    inplace: bool = False


def register_table(table: Mapping[type[nn.Module], Row]) -> None:
    """Registers the classes of a table."""

    def propose(leaf: Leaf, cls: type[nn.Module]) -> Iterator[Proposal]:
        row = table[cls]
        found = leaf.find(row.operator)
        if found is not None:
            kwargs = {name: _read(leaf, found, read) for name, read in row.parameters.items()}
            yield Proposal({**kwargs, "inplace": found.name.endswith("_")} if row.inplace else kwargs)

    for cls, row in table.items():
        register(cls, propose, [row.operator, f"{row.operator}_"])


def _read(leaf: Leaf, found: Operator, read: Read) -> Any:
    return found[read] if isinstance(read, str) else read(leaf, found)


def each(name: str) -> Read:
    """A list argument: its only value where all are the same, a tuple otherwise."""
    return lambda _, found: one_or_all(found.list(name))


def whole(name: str) -> Read:
    """A list argument as a tuple."""
    return lambda _, found: found.list(name)


def has(name: str) -> Read:
    """Whether the module holds an entry of a name."""
    return lambda leaf, _: name in leaf.state


def one_or_all(values: tuple[Any, ...]) -> Any:
    """What a constructor was likely given: one number for all dimensions, or one for each."""
    return values[0] if values and all(value == values[0] for value in values) else values


def integral(number: Any) -> Any:
    """A number as it was likely written, where an operator takes it as a float."""
    return int(number) if isinstance(number, float) and number.is_integer() else number
