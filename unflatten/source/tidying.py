"""Bodies as a person would leave them: without what capturing added and without what nothing uses.

All that is left out here comes back by itself when the written code is captured again, or makes no difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from unflatten import _torch
from unflatten.code.body import Apply, Body, Held, Invoke, Local
from unflatten.code.nesting import Made, Rebuilt
from unflatten.code.uses import locals_of
from unflatten.flat.values import FlatNode

ASSERT = torch.ops.aten._assert_tensor_metadata.default
_ALIAS = torch.ops.aten.alias.default
_SLICE = torch.ops.aten.slice.Tensor
_END = 9223372036854775807
"""What stands for an open end in `aten.slice`."""
_TO = torch.ops.aten.to.dtype_layout
_TO_DEVICE = torch.ops.aten.to.device
_ASSERTIONS = {torch.ops.aten._assert_scalar.default: 1, torch.ops.aten._assert_async.msg: 1}
"""Checks, with the place of the message."""
_NODE = re.compile(r" on node '[^']*'$")
_LIFTED = torch.ops.aten.lift_fresh_copy.default
_DETACH = torch.ops.aten.detach_.default
_USELESS = {"pin_memory": (False, None), "layout": (torch.strided, None)}


def device_of(tensor: torch.Tensor) -> torch.device:
    """Stands for `tensor.device` in a body."""
    return tensor.device


def to(tensor: torch.Tensor, *args: Any) -> torch.Tensor:
    """Stands for `tensor.to(device)` or `tensor.to(device, dtype)` in a body."""
    return tensor.to(*args)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Nested arguments with a function applied to what they hold, constants included."""
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return tuple([mapped(item, function) for item in value])
    if isinstance(value, list):
        return [mapped(item, function) for item in value]
    if isinstance(value, Mapping):
        return {key: mapped(item, function) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*mapped((value.start, value.stop, value.step), function))
    if isinstance(value, Rebuilt | Made):
        field = "leaves" if isinstance(value, Rebuilt) else "fields"
        return replace(value, **{field: mapped(getattr(value, field), function)})
    return function(value)


def tidied(body: Body, source: Local | Held | None, device: torch.device | None) -> Body:
    """A body without checks that capturing added, aliases, and operators without effect.

    Args:
        body: the body.
        source: a tensor of it to take devices from.
        device: the only device that the program is on, None where it has several.
    """
    steps, result = _without_aliases(body)
    body = replace(body, steps=tuple(_plain(step) for step in steps), result=result)
    body = _without_dead(body)
    return body if source is None or device is None else _with_device(body, source, device)


def _without_aliases(body: Body) -> tuple[list[Apply | Invoke], Any]:
    same: dict[Local, Any] = {}
    lifted: set[Local] = set()

    def resolved(leaf: Any) -> Any:
        return same.get(leaf, leaf) if isinstance(leaf, Local) else leaf

    steps: list[Apply | Invoke] = []
    for step in body.steps:
        if isinstance(step, Apply) and step.target is ASSERT:
            continue
        new = replace(step, args=mapped(step.args, resolved), kwargs=mapped(step.kwargs, resolved))
        if isinstance(new, Apply) and new.target is _DETACH and new.args[0] in lifted:
            same[Local(new.out)] = new.args[0]
            continue
        if isinstance(new, Apply) and new.target is _LIFTED:
            lifted.add(Local(new.out))
            new = replace(new, target=torch.ops.aten.clone.default)
        if isinstance(new, Apply) and _is_same(new) and isinstance(new.args[0], Local):
            same[Local(new.out)] = new.args[0]
            continue
        steps.append(new)
        if isinstance(new, Apply) and _returns_first(new.target) and isinstance(new.args[0], Local):
            same[Local(new.out)] = new.args[0]
    return steps, mapped(body.result, resolved)


def with_moves(body: Body, origins: Sequence[Any]) -> Body:
    """A body with `x.to(device)` where that is what was captured.

    Args:
        body: the body.
        origins: where its steps came from, which tells types; empty where that was lost.
    """
    steps = [
        _move(step, origins[at] if at < len(origins) else None) if isinstance(step, Apply) else step
        for at, step in enumerate(body.steps)
    ]
    return replace(body, steps=tuple(steps))


def _move(step: Apply, origin: Any) -> Apply:
    if step.target is _TO_DEVICE and not step.kwargs and len(step.args) == 3:
        return replace(step, target=to)
    if (
        step.target is not _TO
        or not isinstance(origin, FlatNode)
        or step.kwargs.keys() != {"dtype", "layout", "device"}
    ):
        return step
    given = getattr(origin.args[0], "meta", {}).get("val")
    if isinstance(given, torch.Tensor) and given.dtype == step.kwargs["dtype"] and len(step.args) == 1:
        return replace(step, target=to, args=(*step.args, step.kwargs["device"]), kwargs={})
    return step


def _is_same(step: Apply) -> bool:
    """Whether an operator gives its argument as it is: an alias, or `x[:]`, which sizes that vary leave behind."""
    if step.target is not _SLICE:
        return step.target is _ALIAS
    defaults: tuple[Any, ...] = (None, None, 1)
    start, end, stride = step.args[2:5] + defaults[max(len(step.args) - 2, 0) :]
    whole = start in (None, 0) and (end is None or (type(end) is int and end == _END))
    return whole and type(start) in (int, type(None)) and type(stride) is int and stride == 1 and not step.kwargs


def _returns_first(target: Any) -> bool:
    """Whether an operator writes its first argument and returns it."""
    if not isinstance(target, _torch.OpOverload) or target.namespace != "aten" or len(target._schema.returns) != 1:
        return False
    given, returned = target._schema.arguments[:1], target._schema.returns[0].alias_info
    own = given[0].alias_info if given else None
    return bool(own and returned and own.is_write and own.before_set == returned.before_set)


def _plain(step: Apply | Invoke) -> Apply | Invoke:
    """An operator without arguments that say what is so anyway, and without the names that capturing gave."""
    if isinstance(step, Apply) and step.target in _ASSERTIONS:
        return _plain_check(step, _ASSERTIONS[step.target])
    if not isinstance(step, Apply) or not step.kwargs:
        return step
    kwargs = {
        name: value
        for name, value in step.kwargs.items()
        if name not in _USELESS or all(value is not useless for useless in _USELESS[name])
    }
    return replace(step, kwargs=kwargs)


def _plain_check(step: Apply, place: int) -> Apply:
    """A check whose message names no node: that one goes by another name when it is captured again."""
    args = [_NODE.sub("", arg) if at == place and isinstance(arg, str) else arg for at, arg in enumerate(step.args)]
    return replace(step, args=tuple(args))


def is_pure(target: Any) -> bool:
    """Whether running an operator does nothing but give its result."""
    if isinstance(target, _torch.OpOverload):
        random = torch.Tag.nondeterministic_seeded in target.tags
        return target.namespace == "aten" and not target._schema.is_mutable and not random and _gives(target)
    return target in (device_of, to) or getattr(target, "__module__", "") == "_operator"


def _gives(target: Any) -> bool:
    return bool(target._schema.returns) and not target._schema.name.startswith(("aten::_assert", "aten::sym_constrain"))


def _without_dead(body: Body) -> Body:
    used = set(locals_of(body.result))
    kept: list[Apply | Invoke] = []
    for step in reversed(body.steps):
        if isinstance(step, Apply) and step.out not in used and is_pure(step.target):
            continue
        used.update(locals_of((step.args, step.kwargs)))
        kept.append(step)
    steps = [_narrowed(step, used) if isinstance(step, Invoke) else step for step in reversed(kept)]
    return replace(body, steps=tuple(steps))


def renumbered(body: Body) -> Body:
    """A body whose values are numbered in the order in which it comes to them, whatever has been left out of it."""
    numbers: dict[int, int] = {}

    def number(leaf: Any) -> Any:
        return Local(numbers.setdefault(leaf.index, len(numbers))) if isinstance(leaf, Local) else leaf

    def local(index: int) -> int:
        return numbers.setdefault(index, len(numbers))

    parameters = tuple(
        replace(each, leaves=tuple((local(index), access) for index, access in each.leaves)) for each in body.parameters
    )
    steps: list[Apply | Invoke] = []
    for step in body.steps:
        new = replace(step, args=mapped(step.args, number), kwargs=mapped(step.kwargs, number))
        if isinstance(new, Apply):
            steps.append(replace(new, out=local(new.out)))
        else:
            steps.append(replace(new, outs=tuple((local(index), access) for index, access in new.outs)))
    return replace(body, parameters=parameters, steps=tuple(steps), result=mapped(body.result, number))


def _narrowed(step: Invoke, used: set[int]) -> Invoke:
    """A call without the names of results that nothing uses."""
    outs = tuple(out for out in step.outs if out[0] in used)
    return replace(step, outs=outs, flat=step.flat if len(outs) > 1 else 0)


def _with_device(body: Body, source: Local | Held, device: torch.device) -> Body:
    """A body that takes its devices from a tensor."""
    if not any(_names_device((step.args, step.kwargs), device) for step in body.steps):
        return body
    local = Local(len(body.names))

    def followed(leaf: Any) -> Any:
        return local if isinstance(leaf, torch.device) and leaf == device else leaf

    steps: list[Apply | Invoke] = []
    for step in body.steps:
        new = replace(step, args=mapped(step.args, followed), kwargs=mapped(step.kwargs, followed))
        steps.append(new)
    first = next(at for at, step in enumerate(steps) if local.index in locals_of((step.args, step.kwargs)))
    steps.insert(first if isinstance(source, Held) else 0, Apply(local.index, device_of, (source,), {}))
    return replace(body, steps=tuple(steps), names=(*body.names, "device"))


def _names_device(value: Any, device: torch.device) -> bool:
    found: list[Any] = []
    mapped(value, found.append)
    return any(isinstance(leaf, torch.device) and leaf == device for leaf in found)


def devices(bodies: Iterator[Body]) -> set[torch.device]:
    """The devices that bodies name."""
    found: set[torch.device] = set()
    for body in bodies:
        for step in body.steps:
            mapped((step.args, step.kwargs), lambda leaf: found.add(leaf) if isinstance(leaf, torch.device) else None)
    return found
