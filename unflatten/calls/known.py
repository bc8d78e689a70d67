"""The calls that a program makes of a module, and how a call from outside is matched with them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from unflatten import _torch
from unflatten.calls.arguments import Arguments, describe
from unflatten.calls.checks import Check, Limits, compile_check
from unflatten.calls.mismatches import fits, mismatches
from unflatten.calls.specs import GoneSpec, Spec
from unflatten.errors import InputError, UnknownCallError, UnknownSignatureError, listing
from unflatten.flat.values import FlatNode
from unflatten.paths import ModuleCall, ModulePath
from unflatten.regions import Region

BODY = "@body"
"""The keyword by which a call site tells a module which of its bodies runs: `~body` for a call from outside."""


@dataclass(frozen=True, eq=False)
class KnownCall:
    """One call that the program makes of a module.

    Attributes:
        call: which one; None for the program's own.
        body: the body that it runs.
        arguments: what it was given.
        results: what it returned, leaf by leaf; where nothing recorded that, what its body returns, of which
            this call may use a part.
        recorded: whether the arguments are the ones that the caller wrote.
        cut: why the call had to be cut, where it was.
    """

    call: ModuleCall | None
    body: int
    arguments: Arguments
    results: tuple[Spec, ...]
    recorded: bool
    cut: str = ""

    @property
    def is_simple(self) -> bool:
        """Whether one value goes in and one comes out, so that there is no order to be known."""
        return not self.cut and len(self.arguments.specs) == 1 and len(self.results) == 1

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of what it returned."""
        return bool(self.results) and all(isinstance(spec, GoneSpec) for spec in self.results)

    def __str__(self) -> str:
        name = str(self.call) if self.call else "the program"
        guessed = "" if self.recorded or self.is_simple else "  (order not recorded)"
        cut = f"  (a piece: {self.cut})" if self.cut else ""
        return f"{name}: ({self.arguments}) -> {describe(self.results)}{guessed}{cut}"


@dataclass(frozen=True, eq=False)
class Place:
    """What a module knows of its place in the tree.

    Attributes:
        path: where it is.
        calls: how the program calls it.
        limits: what the program requires of sizes.
        checks: whether calls from outside are compared with `calls`.
        several: whether the calls run different bodies, or one from outside gives less than one from inside.
        constants: the names of the tensors that it holds as plain attributes.
        fixed: for each operator that depends on the mode, its name and the mode that it was captured in.
        regions: the calls as regions of the tree of calls; a copy in another process has none.
        origins: for each body, where its steps came from; likewise.
        text: what the original says of itself in a printed tree, where that is known.
        shown: how all of it prints, where its class has a way of its own.
        genuine: how the program calls the modules inside that have no generated code, by their path from here; of
            those inside a module with generated code, that one knows.
    """

    path: ModulePath
    calls: tuple[KnownCall, ...] = ()
    limits: Limits = field(default_factory=lambda: Limits({}))
    checks: bool = True
    several: bool = False
    constants: tuple[str, ...] = ()
    fixed: tuple[tuple[str, bool], ...] = ()
    regions: tuple[Region, ...] = ()
    origins: tuple[tuple[FlatNode | Region, ...], ...] = ()
    text: str | None = None
    shown: str | None = None
    genuine: Mapping[str, tuple[KnownCall, ...]] = field(default_factory=dict, repr=False)
    _compiled: dict[int, Check] = field(default_factory=dict, repr=False)

    @property
    def is_root(self) -> bool:
        """Whether this is the whole program."""
        return not self.path.names

    @property
    def needs_choice(self) -> bool:
        """Whether a call without a body fixed for it has to be matched with the known ones."""
        return self.several

    def __deepcopy__(self, memo: object) -> Place:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "regions": (), "origins": (), "_compiled": {}}

    def fixed_in(self, mode: bool) -> list[str]:
        """The operators that were captured in a mode and stay in it."""
        return [name for name, captured in self.fixed if captured is mode]

    def prepare(self) -> None:
        """Compiles the checks, so that `torch.compile` finds them made."""
        for at, call in enumerate(self.calls):
            if call.recorded and not call.cut:
                self.check(at)

    def check(self, at: int) -> Check:
        """The compiled check of one of the calls."""
        if at not in self._compiled:
            self._compiled[at] = compile_check(self.calls[at].arguments, self.limits)
        return self._compiled[at]

    @property
    def is_plain(self) -> bool:
        """Whether there is one known call, written as recorded: a single comparison decides."""
        return len(self.calls) == 1 and self.calls[0].recorded and not self.calls[0].cut

    def admit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for `forward`, with the body to run where there are several.

        Raises:
            InputError: the arguments are not ones that the program was captured for.
            UnknownSignatureError: nothing recorded how the module was called, and it matters.
        """
        if self.is_plain and torch.compiler.is_compiling():
            if not self.check(0)(*args, **kwargs):
                raise InputError("these arguments are not ones that the program was captured for")
            return args, kwargs
        found = [
            (call, admitted)
            for at, call in enumerate(self.calls)
            if (admitted := self._admit(at, call, args, kwargs)) is not None
        ]
        # One tensor given twice fits calls that were given two as well; the narrower ones are meant.
        narrow = max((len(call.arguments.twins) for call, _ in found), default=0)
        fitting = [(call.body, admitted) for call, admitted in found if len(call.arguments.twins) == narrow]
        bodies = dict.fromkeys(body for body, _ in fitting)
        if not fitting:
            raise self._refusal(args, kwargs)
        if len(bodies) > 1:
            raise UnknownCallError(
                f"{self._name} was called in ways that these arguments do not tell apart:\n{listing(self.calls)}\n"
                "Call the module that contains it, or export with unflatten.export(model, args), which records "
                "the constants that were passed."
            )
        if all(call.is_gone for call, _ in found):
            raise UnknownCallError(
                f"what {self._name} returned is no longer a part of the program: a pass removed it. Unflatten the "
                "program before passes run."
            )
        body, (new_args, new_kwargs) = fitting[0]
        return new_args, {**new_kwargs, BODY: ~body} if self.several else new_kwargs

    @property
    def _name(self) -> str:
        return f"module {str(self.path)!r}" if self.path.names else "the program"

    def _admit(
        self, at: int, call: KnownCall, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if call.cut:
            return None
        if not call.recorded:
            matched = match_by_kind(call, args, kwargs)
            if matched is None or len(call.results) > 1:
                return None
            args, kwargs = tuple(matched), {}
        try:
            accepted = self.check(at)(*args, **kwargs)
        except (TypeError, KeyError, IndexError):
            return None
        return (args, kwargs) if accepted else None

    def _refusal(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> InputError | UnknownSignatureError:
        if not self.calls:
            return UnknownCallError(f"{self._name} is never called by the program, so what it computes is not known")
        leaves = [leaf for leaf in _torch.tree_leaves((args, kwargs)) if leaf is not None]
        if len(self.calls) == 1 and self.calls[0].is_simple and len(leaves) == 1:
            args, kwargs = tuple(leaves), {}
        if len(self.calls) == 1 and (self.calls[0].recorded or self.calls[0].is_simple):
            return InputError(f"{self._name} can't take these arguments:\n{listing(self._problems(args, kwargs))}")
        if not all(call.recorded for call in self.calls):
            return UnknownSignatureError(
                f"{self._name} can't be called alone with these arguments: the program does not record how its "
                f"arguments and results were arranged, and they can't be told apart by shape. Known calls:\n"
                f"{listing(self.calls)}\nExport with unflatten.export(model, args), which records every call."
            )
        return UnknownCallError(f"{self._name} was never called like this. Known calls:\n{listing(self.calls)}")

    def _problems(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        arguments = self.calls[0].arguments
        try:
            values = _signature(arguments.names).bind(*args, **kwargs).arguments
        except TypeError as error:
            return [f"{error}; the parameters are ({', '.join(arguments.names)})"]
        found = mismatches(arguments, self.limits, values)
        return found or [f"a condition on the inputs does not hold: {guard}" for guard in self.limits.guards]


def _signature(names: Sequence[str]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind) for name in names])


def match_by_kind(call: KnownCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
    """Arguments in the order in which a body takes them, where their shapes leave only one.

    One tensor given twice counts once, as in the graph. None counts as an argument that was left out.
    """
    leaves = (leaf for leaf in _torch.tree_leaves((args, kwargs)) if leaf is not None)
    given: dict[int, Any] = {id(leaf): leaf for leaf in leaves}
    specs = call.arguments.specs
    if len(given) != len(specs):
        return None
    left = list(given.values())
    ordered = []
    for spec in specs:
        fitting = [value for value in given.values() if fits(value, spec)]
        if len(fitting) != 1 or not any(value is fitting[0] for value in left):
            return None
        left = [value for value in left if value is not fitting[0]]
        ordered.append(fitting[0])
    return ordered
