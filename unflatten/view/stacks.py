"""Scopes of the nodes of any graph, whatever the variable that held the model was called.

`ScopeReader` wants to know all module paths beforehand. A graph alone doesn't tell them, so they are collected from
the stacks first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unflatten._torch import is_empty_stack
from unflatten.paths import ROOT, ModulePath, Scope
from unflatten.scopes import ScopeReader, names_of

_VARIABLE = re.compile(r"\b[LG]\['[^']*'\]")
_PARAMETRIZATION = "torch.nn.utils.parametrize.ParametrizationList"
STACK, FORWARD_STACK = "nn_module_stack", "fwd_nn_module_stack"


class StackReader:
    """Reads the stacks of the nodes of one graph.

    Args:
        own: the stack of each node, if it has one.
        forward: that of the forward node that it is the gradient of.

    Attributes:
        scopes: what the own stacks of the nodes tell, and what their forward stacks do: None where there is none,
            `()` where that is empty of modules.
        known: the paths of all modules, parents before children.
    """

    def __init__(self, own: Sequence[Any], forward: Sequence[Any]) -> None:
        distinct: list[Mapping[Any, Any]] = []
        numbers: dict[Any, int] = {}
        own_numbers, forward_numbers = (_numbered(stacks, numbers, distinct) for stacks in (own, forward))
        self._plain, known = _paths(distinct)
        self.known = tuple(known)
        self._reader = ScopeReader(self.known, {})
        scopes: list[Scope | None] = [None, *(self._read(stack) for stack in distinct)]
        self.scopes = [scopes[number] for number in own_numbers], [scopes[number] for number in forward_numbers]

    @property
    def root_type(self) -> str:
        """The dotted class name of the root, empty where no stack tells it."""
        return self._reader.root_type

    def _read(self, stack: Mapping[Any, Any]) -> Scope | None:
        plain = {
            key: (self._plain[value[0]], value[1])
            for key, value in stack.items()
            if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str)
        }
        scope = self._reader.read({STACK: plain})
        if scope is None:
            return None
        cut = next((at for at, call in enumerate(scope) if call.type_name == _PARAMETRIZATION), len(scope))
        return scope[:cut]


def _numbered(stacks: Sequence[Any], numbers: dict[Any, int], distinct: list[Mapping[Any, Any]]) -> list[int]:
    """Numbers equal stacks alike, from 1; 0 is for none."""
    found: list[int] = []
    for stack in stacks:
        if not stack or not isinstance(stack, Mapping):
            found.append(0)
            continue
        key: Any = tuple(stack.items())
        try:
            number = numbers.get(key)
        except TypeError:  # a value that was a tuple is a list
            key = _key(stack)
            number = numbers.get(key)
        if number is None:
            number = numbers[key] = 0 if is_empty_stack(stack) else len(distinct) + 1
            distinct += [stack] if number else []
        found.append(number)
    return found


def _paths(stacks: Iterable[Mapping[Any, Any]]) -> tuple[dict[str, str], dict[ModulePath, None]]:
    """How what some stacks spell is spelled plainly, and the paths of the modules meant and of those that hold them."""
    known: dict[ModulePath, None] = {ROOT: None}
    plain: dict[str, str] = {}
    spellings = (
        value[0]
        for stack in stacks
        for value in stack.values()
        if isinstance(value, tuple | list) and value and isinstance(value[0], str)
    )
    for spelling in dict.fromkeys(spellings):
        named = _VARIABLE.sub("L['self']", spelling)
        path = ModulePath(names_of(named))
        plain[spelling] = named if "slice(" in named or path == ROOT else str(path)
        above = []
        while path not in known:
            above.append(path)
            path = path.parent
        known.update(dict.fromkeys(reversed(above)))
    return plain, known


def _key(stack: Mapping[Any, Any]) -> Any:
    """What equal stacks have in common; hashable."""
    return tuple((key, value[0]) if isinstance(value, tuple | list) and value else key for key, value in stack.items())
