"""Assertions about unflattened modules: leaving out, replacing, saving."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn

from unflatten.errors import BypassError, DifferenceError
from unflatten.rewrite.bypass import bypass, restore
from unflatten.testing.comparing import Difference, differences
from unflatten.testing.failing import check
from unflatten.testing.running import Args, Call, Kwargs, calls_of
from unflatten.testing.same import assert_same_hierarchy, assert_same_outputs, assert_same_state


def bypass_sets(module: nn.Module, *, using: int | None = 0) -> st.SearchStrategy[tuple[str, ...]]:
    """The paths of modules that can be left out together, in any order.

    Args:
        module: what `unflatten` gave; it is left as it is.
        using: the position of the input that is handed on where several may be, as `bypass` takes it.

    Example:
        >>> from hypothesis import find
        >>> from unflatten import unflatten
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> nested = unflatten(torch.export.export(model, (torch.ones(1, 2),)))
        >>> find(bypass_sets(nested), lambda paths: len(paths) == 2)
        ('0', '1')
    """
    left_out, possible = copy.deepcopy(module), []
    for path in [name for name, _ in module.named_modules() if name]:
        try:
            bypass(left_out, path, using=using)
        except (BypassError, AttributeError):
            continue
        possible.append(path)
        restore(left_out, path)
    if not possible:
        return st.just(())
    return st.lists(st.sampled_from(possible), unique=True).map(tuple)


def assert_bypass_equivalent(
    module: nn.Module, paths: Sequence[str], args: Args, kwargs: Kwargs | None = None, *, using: int | None = 0
) -> None:
    """Leaving modules out in any order computes the same, and putting them back in any order changes nothing.

    Args:
        module: what `unflatten` gave; it is left as it is.
        paths: the modules to leave out; one that can't be left out among the others is left in by every order.
        args: what to call the module with.
        kwargs: likewise, by keyword.
        using: the position of the input that is handed on where several may be, as `bypass` takes it.

    Raises:
        DifferenceError: the order matters, or something is not as before.

    Example:
        >>> from unflatten import unflatten
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> nested = unflatten(torch.export.export(model, (torch.ones(1, 2),)))
        >>> assert_bypass_equivalent(nested, ["0", "1"], (torch.ones(1, 2),))
    """
    things = {"module": module, "paths": list(paths), "args": args, "kwargs": dict(kwargs or {}), "using": using}
    with told("leaving modules out depends on the order, or is not undone", "assert_bypass_equivalent", things):
        first, done = _left_out(module, paths, using)
        for order in some_orders(done):
            other, also = _left_out(module, order, using)
            check([*_sets(done, also)], "the order decides what can be left out", "assert_bypass_equivalent", **things)
            assert_same_state(first, other)
            assert_same_outputs(copy.deepcopy(first), copy.deepcopy(other), args, kwargs, times=1)
            for path in some_orders(order)[-1]:
                restore(other, path)
            assert_same_state(module, other)
            assert_same_hierarchy(module, other)
            assert_same_outputs(copy.deepcopy(module), other, args, kwargs, times=1)


def some_orders(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """As it is, backwards, and rotated by half."""
    half = len(paths) // 2
    return list(dict.fromkeys([tuple(paths), tuple(reversed(paths)), (*paths[half:], *paths[:half])]))


def _left_out(module: nn.Module, paths: Sequence[str], using: int | None) -> tuple[nn.Module, list[str]]:
    """A copy with modules left out, and which ones could be."""
    twin, done = copy.deepcopy(module), []
    for path in paths:
        with contextlib.suppress(BypassError):
            bypass(twin, path, using=using)
            done.append(path)
    return twin, done


def _sets(expected: Sequence[str], given: Sequence[str]) -> Iterator[Difference]:
    for path in expected:
        if path not in given:
            yield Difference("left out", "yes", "refused in another order", path=path)


@contextlib.contextmanager
def told(claim: str, assertion: str, things: dict[str, Any]) -> Iterator[None]:
    """Tells what differs inside as what it means outside, with a script for that."""
    try:
        yield
    except DifferenceError as error:
        found = [item for item in error.differences if isinstance(item, Difference)]
        check(found, claim, assertion, **things)
        raise


def assert_state_round_trip(module: nn.Module, args: Args | None = None, kwargs: Kwargs | None = None) -> None:
    """A module survives `state_dict`, `torch.save`, `copy.deepcopy` and `pickle`.

    Compared are the state, the hierarchy and, where there are arguments, results and writes.

    Args:
        module: the module; it is left as it is.
        args: what to call the module with.
        kwargs: likewise, by keyword.

    Raises:
        DifferenceError: a way changes the module.

    Example:
        >>> assert_state_round_trip(nn.BatchNorm1d(2), (torch.ones(3, 2),))
    """
    things = {"module": module, "args": args, "kwargs": dict(kwargs or {})}
    for name, way in _WAYS.items():
        with told(f"the module does not survive {name}", "assert_state_round_trip", things):
            twin = way(module)
            assert_same_state(module, twin)
            assert_same_hierarchy(module, twin)
            if args is not None or kwargs:
                assert_same_outputs(copy.deepcopy(module), twin, args or (), kwargs, times=1)


def _by_state_dict(module: nn.Module) -> nn.Module:
    """A copy that had other numbers, and loaded the state dict from a file."""
    twin = copy.deepcopy(module)
    with torch.no_grad():
        for tensor in twin.state_dict().values():
            if isinstance(tensor, torch.Tensor):
                tensor.zero_()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    twin.load_state_dict(torch.load(io.BytesIO(file.getvalue())), strict=True)
    return twin


def _by_file(module: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    loaded: nn.Module = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    return loaded


_WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "state_dict and load_state_dict": _by_state_dict,
    "torch.save": _by_file,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),  # noqa: S301  # what was just pickled
}


def assert_swappable(model: nn.Module, unflattened: nn.Module, args: Args, kwargs: Kwargs | None = None) -> None:
    """Each module that is called can be replaced by the original, which then gets the very calls that it got before.

    Those that do not need one another may come in another order.

    Args:
        model: the original, of which every call was recorded: `unflatten.export`.
        unflattened: what `unflatten` made of its program.
        args: what to call both with.
        kwargs: likewise, by keyword.

    Raises:
        DifferenceError: a module gets other calls, or other results.

    Example:
        >>> from unflatten import export, unflatten
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> assert_swappable(model, unflatten(export(model, (torch.ones(1, 2),))), (torch.ones(1, 2),))
    """
    calls = calls_of(copy.deepcopy(model), args, kwargs)
    things = {"model": model, "unflattened": unflattened, "args": args, "kwargs": dict(kwargs or {})}
    for name in dict.fromkeys(call.name for call in calls):
        swapped = _with_original(model, unflattened, name)
        again = [call for call in calls_of(swapped, args, kwargs) if call.name == name]
        expected = [call for call in calls if call.name == name]
        found = differences(len(expected), len(again), f"the number of calls of {name!r}")
        found = [replace(item, path=name) for item in found or _unmatched(expected, again)]
        check(found, f"the original does not fit in place of {name!r}", "assert_swappable", **things)


def _unmatched(expected: Sequence[Call], given: Sequence[Call]) -> list[Difference]:
    """In what calls differ. Calls that do not need one another may come in another order."""
    left = list(given)
    for at, want in enumerate(expected):
        found = [_between(want, have, at) for have in left]
        same = next((number for number, differing in enumerate(found) if not differing), None)
        if same is None:
            return min(found, key=len)
        del left[same]
    return []


def _between(want: Call, have: Call, at: int) -> list[Difference]:
    parts = ("args", "kwargs", "result")
    return [
        item
        for part in parts
        for item in differences(getattr(want, part), getattr(have, part), f"{part} of call {at} ")
    ]


def _with_original(model: nn.Module, unflattened: nn.Module, name: str) -> nn.Module:
    """A copy of the unflattened module with a copy of one of the original's modules under all its names.

    What is inside of that one and elsewhere too is replaced there as well: its state is one.
    """
    original, swapped = model.get_submodule(name), copy.deepcopy(unflattened)
    twins: dict[int, Any] = {}
    copy.deepcopy(original, twins)
    inner = {id(module) for module in original.modules()}
    for path, module in model.named_modules(remove_duplicate=False):
        if id(module) in inner:
            owner, _, last = path.rpartition(".")
            swapped.get_submodule(owner)._modules[last] = twins[id(module)]
    return swapped
