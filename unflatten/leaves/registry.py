"""Which recogniser proposes for which class; what a user registers wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from torch import nn

from unflatten.leaves.leaf import Leaf, Proposal

Recogniser = Callable[[Leaf, type[nn.Module]], Iterable[Proposal]]
"""Proposes for a call and a class; the most likely proposal first."""


@dataclass(frozen=True, eq=False)
class Registration:
    """A recogniser that is registered; as a context manager it is removed at the end.

    Attributes:
        cls: the class that it proposes for.
        recogniser: the function.
        operators: the names of operators that calls of the class may have; where the program does not tell
            the class, only calls with one of them are tried.
    """

    cls: type[nn.Module]
    recogniser: Recogniser
    operators: frozenset[str]

    def remove(self) -> None:
        """Takes the recogniser away again; twice does no harm."""
        found = _by_name.get(dotted(self.cls), [])
        if self in found:
            found.remove(self)

    def __enter__(self) -> Registration:  # noqa: PYI034 - Self is newer than Python 3.10
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


_by_name: dict[str, list[Registration]] = {}


def register(cls: type[nn.Module], recogniser: Recogniser, operators: Iterable[str] = ()) -> Registration:
    """Has calls of a class recognised, the latest recogniser first.

    Args:
        cls: the class whose instances are given back. Its constructor and its forward have to work on the meta
            device.
        recogniser: proposes the arguments of its constructor for a call. Nothing has to be checked: a proposal
            counts only if the module that it makes runs the same operators.
        operators: names of operators, such as `linear`, one of which every call has. Needed only to recognise
            calls in programs that don't record classes.

    Example:
        >>> import torch
        >>> from unflatten import leaves, unflatten
        >>> class Scale(torch.nn.Module):
        ...     def __init__(self, factor):
        ...         super().__init__()
        ...         self.factor = factor
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> def scale(leaf, cls):
        ...     yield leaves.Proposal({"factor": leaf.find("mul")["other"]})
        >>> program = torch.export.export(torch.nn.Sequential(Scale(3)), (torch.ones(2),))
        >>> with leaves.register(Scale, scale):
        ...     unflatten(program).get_submodule("0").factor
        3
    """
    made = Registration(cls, recogniser, frozenset(operators))
    _by_name.setdefault(dotted(cls), []).insert(0, made)
    return made


def dotted(cls: type) -> str:
    """The name by which programs call a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def for_class(type_name: str) -> list[Registration]:
    """The recognisers of a class."""
    return _by_name.get(type_name, [])


def for_operators(names: set[str]) -> Iterator[Registration]:
    """The recognisers whose classes may run such operators."""
    for found in list(_by_name.values()):
        yield from (one for one in found if one.operators & names)
