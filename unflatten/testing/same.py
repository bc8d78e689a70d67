"""Assertions that two modules are the same in what they compute, learn, hold, and consist of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import nn

from unflatten import _torch
from unflatten.info import info
from unflatten.modules import UnflattenedModule
from unflatten.testing.comparing import Difference, differences
from unflatten.testing.failing import check
from unflatten.testing.running import Args, Kwargs, located, run


def assert_same_outputs(
    expected: nn.Module, given: nn.Module, args: Args, kwargs: Kwargs | None = None, *, times: int = 2
) -> None:
    """Both give the same results, and write the same into their arguments and buffers, each time, bit for bit.

    Random numbers are drawn from the same seed. The modules are called on copies of the arguments; their own buffers
    are written as each call writes them.

    Args:
        expected: the one module.
        given: the other.
        args: what both are called with.
        kwargs: likewise, by keyword.
        times: how often.

    Raises:
        DifferenceError: they differ.

    Example:
        >>> assert_same_outputs(nn.ReLU(), nn.Threshold(0.0, 0.0), (torch.linspace(-1, 1, 5),))
    """
    for time in range(times):
        want, want_args = run(expected, args, kwargs or {})
        have, have_args = run(given, args, kwargs or {})
        found = differences(want, have)
        found += differences(want_args, have_args, "arguments afterwards ")
        found += differences(_buffers(expected), _buffers(given), "buffers afterwards ")
        check(
            located(found, expected, given, args, kwargs or {}) if found else found,
            f"the modules differ at call {time}",
            "assert_same_outputs",
            expected=expected,
            given=given,
            args=args,
            kwargs=dict(kwargs or {}),
        )


def assert_same_gradients(
    expected: nn.Module, given: nn.Module, args: Args, kwargs: Kwargs | None = None, *, rounded: bool = False
) -> None:
    """Both give the same gradients of parameters for the sum of squares of their results.

    Args:
        expected: the one module.
        given: the other.
        args: what both are called with.
        kwargs: likewise, by keyword.
        rounded: up to rounding: autograd adds the gradients of a tensor in the order in which operators ran.

    Raises:
        DifferenceError: they differ.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> assert_same_gradients(layer, nn.Sequential(layer)[0], (torch.ones(1, 2),))
    """
    left, right = (_gradients(module, args, kwargs or {}) for module in (expected, given))
    if rounded and left.keys() == right.keys():
        right = {name: left[name] if _close(left[name], grad) else grad for name, grad in right.items()}
    things = {"args": args, "kwargs": dict(kwargs or {}), "rounded": rounded}
    found = [_of_parameter(item) for item in differences(left, right, "")]
    check(found, "the gradients differ", "assert_same_gradients", expected=expected, given=given, **things)


def _of_parameter(found: Difference) -> Difference:
    name = found.where.strip("[]'")
    return Difference(f"the gradient of {name}", found.expected, found.given, path=name.rpartition(".")[0])


def _close(want: torch.Tensor | None, have: torch.Tensor | None) -> bool:
    if want is None or have is None:
        return want is have
    tolerance = {torch.float64: 1e-9}.get(want.dtype, 1e-4)
    return want.shape == have.shape and torch.allclose(want, have, tolerance, tolerance, equal_nan=True)


def _gradients(module: nn.Module, args: Args, kwargs: Kwargs) -> dict[str, torch.Tensor | None]:
    module.zero_grad()
    result, _ = run(module, args, kwargs)
    leaves = [leaf for leaf in _torch.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if leaves:
        torch.stack([leaf.double().square().sum() for leaf in leaves]).sum().backward()  # type: ignore[no-untyped-call]
    found = {name: parameter.grad for name, parameter in module.named_parameters(remove_duplicate=False)}
    module.zero_grad()
    return found


def assert_same_state(expected: nn.Module, given: nn.Module) -> None:
    """Both have the same state dict in the same order, the same ties, the same buffers and the same module names.

    Args:
        expected: the one module.
        given: the other.

    Raises:
        DifferenceError: they differ.

    Example:
        >>> assert_same_state(nn.ReLU(), nn.Tanh())
    """
    left, right = expected.state_dict(), given.state_dict()
    found = list(_lists("the keys of the state dict", list(left), list(right)))
    if not found:
        found += differences(dict(left), dict(right), "state")
    found += _lists("ties", _ties(expected), _ties(given))
    found += _lists("buffers", list(_buffers(expected)), list(_buffers(given)))
    found += _lists("modules", _modules(expected), _modules(given))
    check(found, "the states differ", "assert_same_state", expected=expected, given=given)


def assert_same_hierarchy(expected: nn.Module, given: nn.Module) -> None:
    """Both consist of the same modules under the same names; what unflatten made has the same code and calls.

    Args:
        expected: the one module.
        given: the other.

    Raises:
        DifferenceError: they differ.

    Example:
        >>> assert_same_hierarchy(nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU()))
    """
    found = hierarchy_differences(expected, given)
    check(found, "the hierarchies differ", "assert_same_hierarchy", expected=expected, given=given)


def hierarchy_differences(expected: nn.Module, given: nn.Module) -> list[Difference]:
    """What `assert_same_hierarchy` complains of."""
    found = list(_lists("modules", _modules(expected), _modules(given)))
    found += _lists("modules at several names", _shared(expected), _shared(given))
    others = dict(given.named_modules(remove_duplicate=False))
    for name, module in expected.named_modules():
        other = others.get(name)
        if isinstance(module, UnflattenedModule) and isinstance(other, UnflattenedModule):
            found += _of_module(name, module, other)
        elif other is not None and _kind(module) != _kind(other):
            found.append(Difference("the class", _kind(module), _kind(other), path=name))
    return found


def _of_module(name: str, expected: UnflattenedModule, given: UnflattenedModule) -> Iterator[Difference]:
    """What differs in one module: the first line of code, and the calls."""
    left, right = (info(module).code.splitlines() for module in (expected, given))
    for want, have in zip([*left, ""], [*right, ""], strict=False):
        if want != have:
            yield Difference("the code", want.strip(), have.strip(), name or "the root", want.strip().split(" = ")[0])
            return
    calls = ([str(call) for call in info(module).calls] for module in (expected, given))
    for found in _lists("the calls", *calls):
        yield Difference(found.where, found.expected, found.given, name or "the root")


def _kind(module: nn.Module) -> str:
    """The class of a module, the original's where unflatten made it."""
    own = f"{type(module).__module__}.{type(module).__qualname__}"
    return info(module).type_name or own if isinstance(module, UnflattenedModule) else own


def _lists(where: str, expected: list[str], given: list[str]) -> Iterator[Difference]:
    """The first item at which two lists part."""
    for at, (want, have) in enumerate(zip([*expected, "nothing"], [*given, "nothing"], strict=False)):
        if want != have:
            yield Difference(f"{where}, number {at}", want, have)
            return


def _buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    return dict(module.named_buffers(remove_duplicate=False))


def _modules(module: nn.Module) -> list[str]:
    return [name for name, _ in module.named_modules(remove_duplicate=False)]


def _shared(module: nn.Module) -> list[str]:
    """The names of modules that are one."""
    return _one(module.named_modules(remove_duplicate=False))


def _ties(module: nn.Module) -> list[str]:
    """The names of parameters and buffers that are one tensor."""
    named = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    return _one(named)


def _one(named: Iterable[tuple[str, object]]) -> list[str]:
    """The names that things have which have several."""
    names: dict[int, list[str]] = {}
    for name, thing in named:
        names.setdefault(id(thing), []).append(name)
    return sorted(" is ".join(group) for group in names.values() if len(group) > 1)
