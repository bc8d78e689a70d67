"""The classes that unflattened modules are instances of.

Modules whose bodies are alike share one generated class, named after the original's, whose `forward` is
generated Python. What differs between its instances, their state and their place in the tree, is held by the
instance. Nothing here takes a name away from the model: what the package itself keeps on a module has a
name that is no identifier.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from unflatten import _torch
from unflatten.calls.known import BODY, Place
from unflatten.code.body import Body, devices_of
from unflatten.code.codegen import Code, write_function
from unflatten.errors import ModeError, UnknownSignatureError, listing

PLACE = "@place"
ROOT_KEY = "@root"
DEVICES = "@devices"
DEFINITION = "@definition"
RECONSTRUCT = "@reconstruct"

_MODULE_CALL = nn.Module.__call__


class _Local(threading.local):
    """Per-thread flag that `torch.compile` can trace: a plain attribute set in `__init__`."""

    def __init__(self) -> None:
        self.inside = False


_local = _Local()


class UnflattenedModule(nn.Module):
    """A module that was made from a graph. Use `unflatten.info(module)` to look into it.

    Calls from inside of the tree run the body that was fixed for the call site. A module that is called
    from outside, and the root always, compares its arguments with the calls that the program made.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the names come from the program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module, hooks included, after checking arguments that come from outside the tree."""
        if _local.inside and nn.Module.__call__ is _MODULE_CALL and not self.__dict__[PLACE].is_root:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
        return _enter(self, args, kwargs)

    def extra_repr(self) -> str:
        """What the original says of itself in a printed tree, where that is known."""
        text = self.__dict__[PLACE].text
        return super().extra_repr() if text is None else text

    def __repr__(self) -> str:
        shown = self.__dict__[PLACE].shown if PLACE in self.__dict__ else None
        return super().__repr__() if shown is None else shown

    def train(self, mode: bool = True) -> UnflattenedModule:
        """Sets the mode, or refuses where captured operators can't follow.

        Raises:
            ModeError: an operator such as dropout or batch norm was captured in the other mode. The module
                is left as it was.
        """
        fixed = list(_fixed_modes(self, not mode))
        if fixed:
            have, want = ("eval", "train") if mode else ("train", "eval")
            raise ModeError(
                f"can't switch to {want} mode: the program was captured in {have} mode, and these operators "
                f"would stay in it:\n{listing(fixed)}\nExport the model again after model.{want}()."
            )
        for module in self.modules():
            module.training = mode
        return self

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> UnflattenedModule:
        """Moves constants, and what the code creates, along with parameters and buffers; dtypes stay as captured."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        devices = self.__dict__.get(DEVICES, {})
        for device in devices_of(getattr(type(self), DEFINITION).bodies):
            target = fn(torch.empty(0, device=devices.get(device, device))).device
            self.__dict__[DEVICES] = devices = {**devices, device: target}
        for name in self.__dict__[PLACE].constants:
            held = self.__dict__.get(name)
            if isinstance(held, torch.Tensor):
                self.__dict__[name] = held.to(fn(held).device)
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        members = vars(type(self))
        if DEFINITION not in members:  # a class that something else derived from a generated one
            return super().__reduce_ex__(protocol)
        return members[RECONSTRUCT], (members[DEFINITION],), self.__dict__


def _enter(module: UnflattenedModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call that is not known to come from the module's parent."""
    place: Place = module.__dict__[PLACE]
    if BODY not in kwargs and place.checks and not _is_trusted(place):
        args, kwargs = place.admit(args, kwargs)
    if torch.compiler.is_compiling():  # tracers would take the flag for an effect of the model
        return nn.Module.__call__(module, *args, **kwargs)
    return call_inside(module, *args, **kwargs)


def call_inside(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    """A call whose arguments were looked at, so that calls in it need no checks. Not for compilers."""
    outer = _local.inside
    _local.inside = True
    try:
        return nn.Module.__call__(module, *args, **kwargs)
    finally:
        _local.inside = outer


def is_inside_call() -> bool:
    """Whether this thread is inside of a call of a tree, so that what it calls there needs no checks."""
    return _local.inside


def _is_trusted(place: Place) -> bool:
    if _torch.is_fx_symbolic_tracing():
        return True
    if place.is_root:
        return False
    if _local.inside or torch.compiler.is_compiling():
        return not place.needs_choice
    return _torch.in_backward() and not place.needs_choice


def _fixed_modes(module: nn.Module, mode: bool) -> Iterator[str]:
    for name, inner in module.named_modules():
        place = inner.__dict__.get(PLACE)
        if place is not None:
            yield from (f"{operator} in {name or 'the root'}" for operator in place.fixed_in(mode))


def pick(module: nn.Module, body: int) -> Callable[..., Any]:
    """The module as a call site calls it for which the program fixed one of several bodies."""
    if not isinstance(module, UnflattenedModule):
        return module
    bodies = getattr(type(module), DEFINITION).bodies
    return _Picked(module, body) if len(bodies) > 1 or (bodies and bodies[0].surplus) else module


def guess(module: nn.Module, body: int) -> Callable[..., Any]:
    """The module as `pick` gives it, where the program does not say in which order it takes or gives its values.

    Raises:
        UnknownSignatureError: the module was replaced by one that has nothing of it, and the program does
            not say how that one has to be called.
    """
    if any(isinstance(inner, UnflattenedModule) for inner in module.modules()):
        return pick(module, body)
    return _foreign(module)


def _foreign(module: nn.Module) -> nn.Module:
    if getattr(module, "accepts_guessed_arguments", False):
        return module
    raise UnknownSignatureError(
        f"a module of class {type(module).__name__} was put where the program does not tell how the module was called: "
        "which arguments it got, in which order, and what it returned. Export with unflatten.export(model, args), "
        "which records calls, and unflatten before passes drop a part of them; or set accepts_guessed_arguments = "
        "True on the module to have it called as the code of its parent says."
    )


@dataclass(frozen=True, slots=True)
class _Picked:
    """A module together with the body that a call of it runs."""

    module: UnflattenedModule
    body: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs, **{BODY: self.body})


def moved(module: nn.Module, device: torch.device) -> torch.device:
    """Where a module's code creates what the capture saw on a device: the module may have been moved since."""
    found: torch.device = module.__dict__.get(DEVICES, {}).get(device, device)
    return found


def root(module: nn.Module) -> nn.Module:
    """The root of the tree that a module was made in."""
    found: nn.Module = module.__dict__[ROOT_KEY]
    return found


@dataclass(frozen=True, eq=False)
class Definition:
    """What a generated class is generated from.

    Attributes:
        type_name: the dotted name of the original class, or an empty string.
        bodies: the bodies of `forward`.
        taken: the names of the model that would hide what `unflatten.info` offers as attributes.
        original: the original class itself, where it is at hand.
        base: the class that the generated one derives from.
    """

    type_name: str
    bodies: tuple[Body, ...]
    taken: frozenset[str] = frozenset()
    original: type[nn.Module] | None = None
    base: type[UnflattenedModule] = UnflattenedModule

    @property
    def name(self) -> str:
        """The short name of the class."""
        return self.type_name.rpartition(".")[2] or "Module"

    def codes(self) -> tuple[Code, ...]:
        """The source of each body."""
        names = ["forward"] if len(self.bodies) == 1 else [f"forward_{at}" for at in range(len(self.bodies))]
        return tuple(write_function(body, name) for body, name in zip(self.bodies, names, strict=True))

    def __deepcopy__(self, memo: object) -> Definition:
        return self
