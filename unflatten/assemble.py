"""Modules made by hand: a body, the children that its code calls, and a generated class.

This is the door for other packages that have a hierarchy of their own, such as `nir_bridge`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from unflatten._torch import in_transform, register_container
from unflatten.calls.known import Place
from unflatten.classes import class_of, new_module
from unflatten.code.body import Apply, Body, Held, Invoke, Local, Parameter, Step
from unflatten.code.nesting import Attr, Item
from unflatten.collecting import paused_collector
from unflatten.info import OFFERED
from unflatten.modules import PLACE, Definition, UnflattenedModule, call_inside, is_inside_call
from unflatten.paths import ModulePath
from unflatten.watching import OperatorWatch

__all__ = [
    "Apply",
    "Attr",
    "Body",
    "Definition",
    "Held",
    "Invoke",
    "Item",
    "Local",
    "OperatorWatch",
    "Parameter",
    "Step",
    "assemble",
    "call_inside",
    "define",
    "in_transform",
    "is_inside_call",
    "paused_collector",
    "register_container",
]


def define(type_name: str, body: Body, base: type[UnflattenedModule], names: frozenset[str]) -> Definition:
    """What a class is generated from.

    Args:
        type_name: the dotted name that the class reports.
        body: the code of its `forward`.
        base: the class that it derives from.
        names: the names of the children.
    """
    return Definition(type_name, (body,), names & frozenset(OFFERED), None, base)


def assemble(definition: Definition, path: tuple[str, ...], children: Mapping[str, nn.Module]) -> UnflattenedModule:
    """A module of a definition's class, with its children.

    Args:
        definition: what `define` gave.
        path: the names that lead from the root to the module.
        children: by name, in order.
    """
    class_of(definition)
    made = new_module(definition)
    made.__dict__[PLACE] = Place(ModulePath(path), checks=False)
    table: dict[str, Any] = made._modules
    table.update(children)
    return made
