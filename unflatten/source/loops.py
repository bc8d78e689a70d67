"""Calls of all modules of a list in a row, each with what the one before gave: `for layer in self.layers`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from unflatten.code.body import Apply, Body, Held, Invoke, Local, Step, frozen
from unflatten.code.uses import use_counts
from unflatten.source.tidying import mapped

_LEAST = 2


@dataclass(frozen=True, slots=True)
class Loop(Invoke):
    """Calls of all modules of a container, one after the other.

    Its first argument is what the first of them is given; in the others `carried` stands for what the one before gave.

    Attributes:
        carried: the number of what is handed from one to the next.
    """

    carried: int = 0


def looped(body: Body, container_at: Callable[[Held], nn.Module | None]) -> Body:
    """A body with loops in place of calls in a row.

    Args:
        body: the body.
        container_at: the list of modules at a place, None where there is none.
    """
    uses = use_counts(body)
    steps: list[Apply | Invoke] = []
    names = list(body.names)
    at = 0
    while at < len(body.steps):
        run = _run(body.steps[at:], container_at, uses)
        if run:
            steps.append(_loop(run, len(names)))
            names.append(body.names[run[0].outs[0][0]])
            at += len(run)
        else:
            steps.append(body.steps[at])
            at += 1
    return replace(body, steps=tuple(steps), names=tuple(names)) if len(names) > len(body.names) else body


def _run(
    steps: tuple[Apply | Invoke, ...], container_at: Callable[[Held], nn.Module | None], uses: Mapping[int, int]
) -> list[Invoke]:
    """The calls at the beginning of some steps that one loop makes."""
    first = steps[0]
    if not isinstance(first, Invoke) or not first.module.steps or first.module.steps[-1] != Step("0", "item"):
        return []
    container = container_at(replace(first.module, steps=first.module.steps[:-1]))
    count = 0 if container is None else len(list(container.children()))
    if container is None or count < _LEAST or list(container._modules) != [str(at) for at in range(count)]:
        return []
    run = [step for step in steps[:count] if isinstance(step, Invoke)]
    if len(run) < count or any(len(step.outs) != 1 or step.flat for step in run):
        return []
    for number, step in enumerate(run):
        place = (*first.module.steps[:-1], Step(str(number), "item"))
        if step.module != Held(place, first.module.from_root) or not _alike(step, first):
            return []
    return run if _is_chain(run, uses) else []


def _alike(step: Invoke, first: Invoke) -> bool:
    return (step.pick, step.modes, step.outs[0][1], list(step.kwargs)) == (
        first.pick,
        first.modes,
        first.outs[0][1],
        list(first.kwargs),
    )


def _is_chain(run: list[Invoke], uses: Mapping[int, int]) -> bool:
    """Whether each call has the arguments of the first, with what the one before gave in place of one of them."""
    pattern = None
    for before, step in itertools.pairwise(run):
        out = Local(before.outs[0][0])
        if uses.get(out.index, 0) < 1:
            return False
        marked = frozen((mapped(step.args, _mark(out)), mapped(step.kwargs, _mark(out))))
        count = _count((step.args, step.kwargs), out)
        if count != uses[out.index] or (pattern is not None and marked != pattern):
            return False
        pattern = marked
    return bool(pattern == _first_pattern(run))


def _first_pattern(run: list[Invoke]) -> Any:
    """The arguments of the first call as those of the second, with a mark where these have what the first gave."""
    out = Local(run[0].outs[0][0])
    init = _initial(run[0], run[1], out)
    if init is None:
        return None
    first, second = (run[0].args, run[0].kwargs), (run[1].args, run[1].kwargs)
    return frozen(_merged(first, second, out, init))


def _initial(first: Invoke, second: Invoke, out: Local) -> Local | None:
    """What the first call has where the second has what the first gave."""
    places = _flat((first.args, first.kwargs)), _flat((second.args, second.kwargs))
    if len(places[0]) != len(places[1]):
        return None
    found = {one for one, two in zip(*places, strict=True) if two == out}
    only = found.pop() if len(found) == 1 else None
    return only if isinstance(only, Local) else None


def _merged(first: Any, second: Any, out: Local, init: Local) -> Any:
    """The first arguments, marked where the second have what was handed on."""
    theirs = iter(_flat(second))

    def take(leaf: Any) -> Any:
        return _MARK if next(theirs) == out and leaf == init else leaf

    return mapped(first, take)


_MARK = Local(-1)


def _mark(out: Local) -> Callable[[Any], Any]:
    return lambda leaf: _MARK if leaf == out else leaf


def _flat(value: Any) -> list[Any]:
    found: list[Any] = []
    mapped(value, found.append)
    return found


def _count(value: Any, out: Local) -> int:
    return sum(1 for leaf in _flat(value) if isinstance(leaf, Local) and leaf == out)


def _loop(run: list[Invoke], carried: int) -> Loop:
    first, out = run[1], Local(run[0].outs[0][0])
    init = _initial(run[0], run[1], out)

    def inner(leaf: Any) -> Any:
        return Local(carried) if leaf == out else leaf

    module = replace(first.module, steps=first.module.steps[:-1])
    args, kwargs = mapped(first.args, inner), mapped(first.kwargs, inner)
    return Loop(module, first.pick, (init, *args), kwargs, run[-1].outs, 0, first.modes, carried=carried)
