"""One module as it will be written, before the modules that are alike become one class."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from unflatten import _torch
from unflatten.code.body import Apply, Body, Held, Invoke, Step
from unflatten.paths import ModulePath
from unflatten.source.expressions import Expression, Literal
from unflatten.source.signatures import Signature
from unflatten.source.tidying import mapped

SLOT = "slot"
"""How a step is marked that stands for a constant in which modules of one class may differ."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A parameter or buffer.

    Attributes:
        name: what it is called.
        kind: `"parameter"`, `"buffer"`, `"passing"` for a buffer that the state dict does not hold, or `"constant"`
            for a plain attribute.
        made: what makes an empty one.
    """

    name: str
    kind: str
    made: Expression


@dataclass(frozen=True, slots=True)
class Link:
    """A name that is set after all modules are made.

    Attributes:
        owner: the module that has the name, from the one that sets it.
        name: the name.
        target: what it is set to: a tensor's owner or a module, from the one that sets it.
        tensor: the name of the tensor; empty where a module is handed over, in a tuple.
    """

    owner: tuple[str, ...]
    name: str
    target: tuple[str, ...]
    tensor: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A module that gets a class.

    Attributes:
        path: where it is, the first place where there are several.
        name: what its class should be called.
        signature: how its code is called.
        bodies: what it computes, with slots for numbers.
        constants: the number in each slot, with a name for it.
        tensors: what it holds itself.
        children: the modules inside.
        links: what is set once these are made.
        shapes: its first call, in words.
        family: what it has in common with other modules of its class, None where that is all of it.
    """

    path: ModulePath
    name: str
    signature: Signature
    bodies: tuple[Body, ...]
    constants: tuple[tuple[str, Literal], ...]
    tensors: tuple[Tensor, ...]
    children: tuple[tuple[str, Expression], ...]
    links: tuple[Link, ...] = ()
    shapes: tuple[str, ...] = ()
    family: Hashable = None

    def key(self) -> Hashable:
        """Equal for modules that can be of one class."""
        return (
            self.name,
            not self.path.names,
            tuple(body_key(body) for body in self.bodies),
            (self.signature.shown(), tuple(self.signature.needed(at) for at in range(len(self.bodies)))),
            tuple(name for name in self.signature.kept if name in self.signature.optional),
            (self.signature.conditions, self.signature.form),
            tuple((tensor.name, tensor.kind) for tensor in self.tensors),
            tuple(name for name, _ in self.children),
            self.links,
        )


def body_key(body: Body) -> Hashable:
    """Equal for bodies that are written alike."""
    return len(body.parameters), body.key()


def slotted(body: Body, constants: list[tuple[str, Literal]]) -> Body:
    """A body with slots for its numbers, which are appended to `constants`."""

    def slot(hint: str) -> Any:
        def take(leaf: Any) -> Any:
            if type(leaf) not in (int, float, bool):
                return leaf
            constants.append((hint, Literal(leaf)))
            return Held((Step(f"{len(constants) - 1} {type(leaf).__name__}", SLOT),))

        return take

    steps: list[Apply | Invoke] = []
    for step in body.steps:
        names = iter(_argument_names(step))
        args = tuple([mapped(value, slot(next(names, "value"))) for value in step.args])
        kwargs = {name: mapped(value, slot(name)) for name, value in step.kwargs.items()}
        steps.append(replace(step, args=args, kwargs=kwargs))
    return replace(body, steps=tuple(steps), result=mapped(body.result, slot("value")))


_OPERANDS = {"add": "offset", "sub": "offset", "mul": "scale", "div": "divisor", "pow": "exponent"}


def _argument_names(step: Apply | Invoke) -> Iterator[str]:
    if isinstance(step, Apply) and isinstance(step.target, _torch.OpOverload):
        operand = _OPERANDS.get(step.target._schema.name.partition("::")[2], "value")
        for argument in step.target._schema.arguments:
            yield operand if argument.name in ("other", "exponent", "self") else str(argument.name)


def filled(body: Body, values: Mapping[int, Any]) -> Body:
    """A body with something in each slot."""

    def fill(leaf: Any) -> Any:
        if isinstance(leaf, Held) and leaf.steps and leaf.steps[0].how == SLOT:
            return values[int(leaf.steps[0].name.partition(" ")[0])]
        return leaf

    steps = tuple(replace(step, args=mapped(step.args, fill), kwargs=mapped(step.kwargs, fill)) for step in body.steps)
    return replace(body, steps=steps, result=mapped(body.result, fill))
