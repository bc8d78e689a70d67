"""The module that stands where another was bypassed, and its code, which hands inputs on.

Legality: every result of every known call must have its input (see `choosing`), the same one whatever the call where
the program recorded names. A result that is an input already stays that input; a result that is a constant stays that
constant. A call that had to be cut in pieces has no result of its own, so that it can't be bypassed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from unflatten.calls.arguments import path_text
from unflatten.calls.checks import Limits
from unflatten.calls.known import KnownCall, Place
from unflatten.calls.specs import TensorSpec
from unflatten.classes import class_of
from unflatten.code.body import Apply, Body, Held, Local, Parameter
from unflatten.code.nesting import Rebuilt
from unflatten.errors import BypassError
from unflatten.modules import DEFINITION, PLACE, Definition, UnflattenedModule
from unflatten.paths import ModulePath
from unflatten.rewrite.choosing import Chooser, Offer, Using, constant_of

ORIGINAL = "@original"


class Bypassed(UnflattenedModule):
    """A module that hands its inputs on, in place of one that `unflatten.restore` puts back.

    The other one is kept, moved and copied along, but it is no child: none of its state is a parameter or in the
    state dict.
    """

    def _apply(self, fn: Any, recurse: bool = True) -> Bypassed:
        super()._apply(fn, recurse)
        original_of(self)._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        """What it stands for."""
        return f"in place of {type(original_of(self)).__name__}"


def original_of(module: Bypassed) -> nn.Module:
    """The module that was there before."""
    found: nn.Module = module.__dict__[ORIGINAL]
    return found


def make_bypassed(
    module: nn.Module, path: ModulePath, calls: Sequence[KnownCall], using: Using, copies: bool = False
) -> Bypassed:
    """The module to put in place of another.

    Args:
        module: the other.
        path: where it is.
        calls: how the program calls it.
        using: the input to return where several fit.
        copies: whether to hand on copies of inputs instead of themselves.

    Raises:
        BypassError: a result has no input of its structure, or a call was cut.
        AmbiguousBypassError: a result has several.
    """
    chooser = Chooser(f"{str(path)!r} ({type(module).__name__})", using)
    cut = next((call for call in calls if call.cut), None)
    if cut is not None:
        raise BypassError(f"can't bypass {chooser.where}: a call of it had to be cut in pieces: {cut.cut}")
    definition = getattr(type(module), DEFINITION, None)
    bodies = definition.bodies if definition else _bodies_of(calls, chooser.where)
    writers = [
        _Writer(body, [call for call in calls if call.body == at], chooser, f" of call {at}" if at else "")
        for at, body in enumerate(bodies)
    ]
    written = tuple(writer.write(copies) for writer in writers)
    chooser.finish([offer for writer in writers for offer in writer.offers.values()])
    _compare([writer for writer in writers if writer.body.named], chooser.where)
    made = class_of(Definition("Bypassed", written, base=Bypassed))()
    place = module.__dict__.get(PLACE) or Place(path, tuple(calls), Limits({}), False, len(bodies) > 1)
    made.__dict__[PLACE] = replace(place, constants=(), fixed=(), origins=(), _compiled={})
    made.__dict__[ORIGINAL] = module
    made.training = module.training
    if not isinstance(made, Bypassed):
        raise TypeError(f"{type(made).__name__} does not derive from Bypassed")
    return made


class _Writer:
    """Writes the body that hands inputs on in place of one body."""

    def __init__(self, body: Body, calls: Sequence[KnownCall], chooser: Chooser, of: str) -> None:
        self.body = body
        self.calls = calls
        self.chooser = chooser
        self.of = of
        self.offers = dict(_offers(body, calls))
        self.chosen: list[str] = []
        self.number = 0
        self.copies = False
        self.steps: list[Apply] = []
        self.names = list(body.names[: len(self.offers)])

    def write(self, copies: bool) -> Body:
        """The body; incomplete if the chooser has something to say."""
        self.copies = copies
        result = self.result(self.body.result)
        return replace(self.body, steps=tuple(self.steps), result=result, names=tuple(self.names))

    def result(self, value: Any) -> Any:
        """A result with inputs in place of what is computed, leaves in the order in which they are known."""
        if isinstance(value, Rebuilt):
            return replace(value, leaves=tuple(self.result(leaf) for leaf in value.leaves))
        if isinstance(value, tuple | list):
            return type(value)(self.result(item) for item in value)
        if isinstance(value, Mapping):
            return {key: self.result(item) for key, item in value.items()}
        at, self.number = self.number, self.number + 1
        return self.leaf(value, at)

    def leaf(self, value: Any, at: int) -> Any:
        if not isinstance(value, Local | Held) or (isinstance(value, Local) and value.index in self.offers):
            return value
        wanted = [call.results[at] for call in self.calls]
        constant = constant_of(wanted)
        if constant is not None:
            return constant.value
        what = "the result" if len(self.calls[0].results) == 1 else f"result {at}"
        offer = self.chooser.choose(list(self.offers.values()), wanted, what + self.of)
        if offer is None:
            return None
        self.chosen.append(offer.label)
        local = next(Local(number) for number, found in self.offers.items() if found is offer)
        return self.copy(local) if self.copies and isinstance(offer.specs[0], TensorSpec) else local

    def copy(self, local: Local) -> Local:
        copied = Local(len(self.names))
        self.names.append(self.names[local.index])
        self.steps.append(Apply(copied.index, torch.ops.aten.clone.default, (local,), {}))
        return copied


def _offers(body: Body, calls: Sequence[KnownCall]) -> Iterator[tuple[int, Offer]]:
    """The inputs of a body by the number of their local. One value that is given twice counts once.

    Modules that compute the same share a body, so that only recorded names are sure to be those of the calls.
    """
    known = [{(name, access): spec for name, access, spec in call.arguments.leaves()} for call in calls]
    for position, parameter in enumerate(body.parameters):
        name = calls[0].arguments.names[position]
        for local, access in parameter.leaves:
            if body.named:
                specs = tuple(specs[name, access] for specs in known)
            else:
                specs = tuple(call.arguments.specs[position] for call in calls)
            yield local, Offer(name, position, name + path_text(access), specs)


def _compare(writers: Sequence[_Writer], where: str) -> None:
    """Ways of calling a module whose parameters have names hand on the same ones."""
    answers = {tuple(writer.chosen): writer.calls[0] for writer in writers}
    if len(answers) > 1:
        shown = "".join(f"\n  {call}: {', '.join(labels)}" for labels, call in answers.items())
        raise BypassError(f"can't bypass {where}: its calls would hand on different inputs:{shown}")


def _bodies_of(calls: Sequence[KnownCall], where: str) -> tuple[Body, ...]:
    """Bodies for a module whose code is its own: one result, which is not nested."""
    if any(len(call.results) != 1 for call in calls):
        raise BypassError(
            f"can't bypass {where}: how its results nest is not known. Swap it by a module that returns what you want."
        )
    if len({(call.arguments.names, str(call.arguments.in_spec)) for call in calls}) > 1:
        raise BypassError(
            f"can't bypass {where}: it is called in several ways, and its code is its own. Swap it by a module that "
            "returns what you want."
        )
    first = {call.body: call for call in reversed(calls)}
    return tuple(_body_of(first[at]) for at in sorted(first))


def _body_of(call: KnownCall) -> Body:
    found: dict[str, list[Any]] = {name: [] for name in call.arguments.names}
    names: list[str] = []
    for name, access, _ in call.arguments.leaves():
        found[name].append((len(names), access))
        names.append(name)
    parameters = tuple(Parameter(name, tuple(leaves)) for name, leaves in found.items())
    return Body(parameters, call.recorded, (), Local(len(names)), (*names, "result"))
