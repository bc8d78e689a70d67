"""Scopes of the nodes of any graph, whatever the variable that held the model was called.

`ScopeReader` wants to know all module paths beforehand. A graph alone doesn't tell them, so they are collected from
the stacks first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from torch import fx

from unflatten._torch import is_empty_stack
from unflatten.paths import ROOT, ModulePath, Scope
from unflatten.scopes import ScopeReader, names_of

_VARIABLE = re.compile(r"\b[LG]\['[^']*'\]")
_PARAMETRIZATION = "torch.nn.utils.parametrize.ParametrizationList"
STACK, FORWARD_STACK = "nn_module_stack", "fwd_nn_module_stack"


class StackReader:
    """Reads the stacks of the nodes of one graph.

    Attributes:
        root_type: the dotted class name of the root, where a stack tells it.
    """

    def __init__(self, nodes: Iterable[fx.Node]) -> None:
        # By identity: the nodes keep their stacks, and a stack takes longer to hash than all else here.
        self._scopes: dict[int, Scope | None] = {}
        same: dict[int, Any] = {}
        known: dict[ModulePath, None] = {ROOT: None}
        seen: set[str] = set()
        stacks: dict[Any, Mapping[Any, Any]] = {}
        for node in nodes:
            for key in (STACK, FORWARD_STACK):
                stack = node.meta.get(key)
                if stack and isinstance(stack, Mapping) and not is_empty_stack(stack):
                    spelled = same[id(stack)] = _key(stack)
                    stacks.setdefault(spelled, stack)
        for stack in stacks.values():
            for value in stack.values():
                if isinstance(value, tuple | list) and value and isinstance(value[0], str) and value[0] not in seen:
                    seen.add(value[0])
                    path = ModulePath(names_of(_VARIABLE.sub("L['self']", value[0])))
                    above = []
                    while path not in known:
                        above.append(path)
                        path = path.parent
                    known.update(dict.fromkeys(reversed(above)))
        self.known = tuple(known)
        self._reader = ScopeReader(known, {})
        scopes = {spelled: self._read(stack) for spelled, stack in stacks.items()}
        self._scopes = {number: scopes[spelled] for number, spelled in same.items()}

    @property
    def root_type(self) -> str:
        """The dotted class name of the root, empty where no stack tells it."""
        return self._reader.root_type

    def read(self, node: fx.Node, key: str = STACK) -> Scope | None:
        """The scope that a node's stack tells; None if it has none, `()` if that is empty of modules."""
        stack = node.meta.get(key)
        return self._scopes.get(id(stack)) if stack else None

    def _read(self, stack: Mapping[Any, Any]) -> Scope | None:
        plain = {
            key: (_VARIABLE.sub("L['self']", value[0]), value[1])
            for key, value in stack.items()
            if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str)
        }
        scope = self._reader.read({STACK: plain})
        if scope is None:
            return None
        cut = next((at for at, call in enumerate(scope) if call.type_name == _PARAMETRIZATION), len(scope))
        return scope[:cut]


def _key(stack: Mapping[Any, Any]) -> Any:
    """What equal stacks have in common; hashable."""
    return tuple((key, value[0]) if isinstance(value, tuple | list) and value else key for key, value in stack.items())
