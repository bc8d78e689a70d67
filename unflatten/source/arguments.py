"""What the code of a module is given, and what it reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from unflatten._torch import TreeSpec
from unflatten.calls.known import KnownCall
from unflatten.calls.specs import TensorSpec
from unflatten.code.body import Apply, Body, Held, Invoke, Local, Step
from unflatten.errors import SourceError
from unflatten.flat.values import FlatNode
from unflatten.source.tensors import held_tensors
from unflatten.source.tidying import mapped

_DICTS = (nn.ModuleDict, nn.ParameterDict)


def first_calls(root: nn.Module, bodies_of: Callable[[nn.Module], Sequence[Body]]) -> dict[int, list[int]]:
    """For each module, by `id`, those of its bodies that run, in the order in which the program first comes to them.

    Args:
        root: the whole model.
        bodies_of: gives the bodies of a module.
    """
    found: dict[int, list[int]] = {}
    stack = [(root, 0)]
    while stack:
        module, at = stack.pop()
        met, bodies = found.setdefault(id(module), []), bodies_of(module)
        if at in met or at >= len(bodies):
            continue
        met.append(at)
        calls = [step for step in bodies[at].steps if isinstance(step, Invoke)]
        stack.extend((callee_of(root, module, step), step.pick or 0) for step in reversed(calls))
    return found


def tensor_of(calls: tuple[KnownCall, ...], at: int, body: Body) -> Local | None:
    """The first argument of a body that is a tensor."""
    found = {
        (name, access)
        for call in calls
        if call.body == at
        for name, access, spec in call.arguments.leaves()
        if isinstance(spec, TensorSpec)
    }
    for parameter in body.parameters:
        for local, access in parameter.leaves:
            if (parameter.name, access) in found:
                return Local(local)
    return None


def nesting(calls: Sequence[KnownCall], body: int) -> dict[str, TreeSpec]:
    """How the argument of each parameter of a body nests, where all calls agree."""
    found: dict[str, list[TreeSpec]] = {}
    for call in calls:
        for name, part in call.arguments.parts() if call.body == body else ():
            found.setdefault(name, []).append(part)
    return {name: parts[0] for name, parts in found.items() if all(part == parts[0] for part in parts)}


def discrete(calls: Sequence[KnownCall], at: int, body: Body, origins: Sequence[Any]) -> frozenset[int]:
    """The values of a body that no gradient flows through: numbers, and tensors of them that are whole.

    Args:
        calls: the calls of the module.
        at: which of its bodies it is.
        body: the body.
        origins: where its steps came from, which tells types; empty where that was lost.
    """
    found = {
        step.out
        for step, origin in zip(body.steps, origins, strict=False)
        if isinstance(step, Apply) and isinstance(origin, FlatNode) and _is_discrete(origin.meta.get("val"))
    }
    given = {
        (name, access): isinstance(spec, TensorSpec) and not (spec.dtype.is_floating_point or spec.dtype.is_complex)
        for call in calls
        if call.body == at
        for name, access, spec in call.arguments.leaves()
    }
    for parameter in body.parameters:
        found.update(local for local, access in parameter.leaves if given.get((parameter.name, access)))
    return frozenset(found)


def _is_discrete(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not (value.is_floating_point() or value.is_complex())
    return not isinstance(value, list | tuple)


def own_tensor(module: nn.Module) -> Held | None:
    """The first tensor that a module holds under a plain name."""
    reserved = set(dir(nn.Module()))
    for name, _ in held_tensors(module):
        if name.isidentifier() and name not in reserved:
            return Held((Step(name),))
    return None


def with_keys(body: Body, module: nn.Module) -> Body:
    """A body that reaches what a dict of modules or parameters holds by its key: in written code it can be no other."""

    def keyed(leaf: Any) -> Any:
        if not isinstance(leaf, Held) or leaf.from_root:
            return leaf
        steps: list[Step] = []
        at: nn.Module | None = module
        for step in leaf.steps:
            is_key = step.how == "attr" and at is not None and type(at) in _DICTS
            steps.append(replace(step, how="key") if is_key else step)
            at = at._modules.get(step.name) if at is not None else None
        return replace(leaf, steps=tuple(steps))

    steps = []
    for step in body.steps:
        new = replace(step, args=mapped(step.args, keyed), kwargs=mapped(step.kwargs, keyed))
        steps.append(replace(new, module=keyed(new.module)) if isinstance(new, Invoke) else new)
    return replace(body, steps=tuple(steps), result=mapped(body.result, keyed))


def callee_of(root: nn.Module, module: nn.Module, step: Invoke) -> nn.Module:
    """The module that a call in the code of another calls."""
    return at_path(root if step.module.from_root else module, tuple(part.name for part in step.module.steps))


def at_path(module: nn.Module, names: tuple[str, ...]) -> nn.Module:
    """A module inside another."""
    for name in names:
        found = module._modules[name]
        if found is None:
            raise SourceError(f"there is no module at {'.'.join(names)}")
        module = found
    return module
