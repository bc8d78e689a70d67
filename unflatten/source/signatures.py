"""How the written `forward` of a module is called: its parameters, and which of its bodies runs when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unflatten.calls.known import KnownCall, Place
from unflatten.calls.specs import ConstantSpec, GoneSpec, Spec, TensorSpec
from unflatten.code.body import Body, frozen
from unflatten.code.codegen import HELPERS
from unflatten.code.uses import locals_of
from unflatten.source.text import MODULES, identifier, is_plain, unused

FORM = "form"
"""The parameter that tells which body runs, where nothing else does."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a module.

    Attributes:
        names: the parameters of each body, as the program has them.
        renamed: what they are called in code.
        kept: those that the code has, by the program's names, in order.
        used: those that each body needs.
        optional: those that can be left out.
        conditions: for each body but the last, when it runs, in Python.
        form: the parameter that was added to tell the bodies apart, or an empty string.
        order: those that the code of its class has, as they are called there: other modules of it may have more.
    """

    names: tuple[tuple[str, ...], ...]
    renamed: Mapping[str, str]
    kept: tuple[str, ...]
    used: tuple[tuple[str, ...], ...]
    optional: frozenset[str]
    conditions: tuple[str, ...] = ()
    form: str = ""
    order: tuple[str, ...] = ()

    def needed(self, body: int) -> tuple[str, ...]:
        """The parameters that a body needs, as they are called in code."""
        return tuple(self.renamed[name] for name in self.used[body])

    def shown(self) -> tuple[str, ...]:
        """The parameters that the module's code has, as they are called there."""
        return tuple(self.renamed[name] for name in self.kept)

    def given(
        self, body: int, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call as the written code takes them."""
        names = self.names[body]
        positional = dict(zip(names, args, strict=False))
        given = tuple(self.renamed[name] for name in positional if name in self.kept)
        as_before = self.order[: len(given)] == given
        by_position = [value for name, value in positional.items() if name in self.kept] if as_before else []
        by_name = {} if as_before else positional
        by_name = {**by_name, **kwargs}
        found = {self.renamed[name]: value for name, value in by_name.items() if name in self.kept}
        return tuple(by_position), {**found, **({self.form: body} if self.form else {})}


def signature_of(place: Place, bodies: Sequence[Body]) -> Signature:
    """The parameters of a module's written code."""
    names = tuple(tuple(parameter.name for parameter in body.parameters) for body in bodies)
    union = tuple(dict.fromkeys(name for each in names for name in each))
    renamed = _renamed(union)
    used = tuple(tuple(parameter.name for parameter in body.parameters if _is_used(body, parameter)) for body in bodies)
    specs = _Specs(place.calls)
    missing = frozenset(name for name in union if any(name not in each for each in names))
    conditions: tuple[str, ...] | None = ()
    telling: tuple[str, ...] = ()
    if len(bodies) > 1:
        found = _conditions(specs, names, union, renamed)
        conditions, telling = found if found is not None else (None, ())
    needed = {name for each in used for name in each} | set(telling)
    kept = tuple(
        name for name in union if place.is_root or name in needed or not specs.is_constant(name, range(len(bodies)))
    )
    optional = missing | {p.name for body in bodies for p in body.parameters if p.optional}
    kept = (*(n for n in kept if n not in optional), *(n for n in kept if n in optional))
    form = ""
    if conditions is None:
        form = unused(FORM, set(renamed.values()))
        conditions = tuple(f"{form} == {at}" for at in range(len(bodies) - 1))
    order = [renamed[name] for name in kept]
    if form:  # has to be given, so that it comes before what need not be
        order.insert(sum(name not in optional for name in kept), form)
    return Signature(names, renamed, kept, used, frozenset(optional), conditions, form, tuple(order))


def _is_used(body: Body, parameter: Any) -> bool:
    own = {local for local, _ in parameter.leaves}
    if own & set(locals_of(body.result)):
        return True
    return any(not own.isdisjoint(locals_of((step.args, step.kwargs))) for step in body.steps)


def _renamed(names: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    taken = {name for name in names if _is_fine(name)}
    for name in names:
        found[name] = name if name in taken else unused(f"{identifier(name)}", {*taken, *found.values()})
    return found


def _is_fine(name: str) -> bool:
    return is_plain(name) and name not in MODULES and name not in HELPERS and name not in {"l", "O", "I"}


class _Specs:
    """What each body was given for each parameter."""

    def __init__(self, calls: Sequence[KnownCall]) -> None:
        self.by_name: dict[tuple[int, str], list[list[tuple[Any, Spec]]]] = {}
        self.count: dict[int, int] = {}
        for call in calls:
            self.count[call.body] = self.count.get(call.body, 0) + 1
            found: dict[str, list[tuple[Any, Spec]]] = {name: [] for name in call.arguments.names}
            for name, access, spec in call.arguments.leaves():
                found[name].append((access, spec))
            for name, leaves in found.items():
                self.by_name.setdefault((call.body, name), []).append(leaves)

    def is_constant(self, name: str, bodies: Sequence[int]) -> bool:
        """Whether a parameter was never given anything but constants."""
        given = [leaves for body in bodies for leaves in self.by_name.get((body, name), [])]
        return all(isinstance(spec, ConstantSpec | GoneSpec) for leaves in given for _, spec in leaves)

    def constants(self, body: int, name: str, present: bool) -> list[Any] | None:
        """The values that a parameter was given; None where it was given anything else than one constant."""
        if not present:
            return [None]
        found = []
        for leaves in self.by_name.get((body, name), []):
            if len(leaves) != 1 or leaves[0][0] or not isinstance(leaves[0][1], ConstantSpec):
                return None
            found.append(leaves[0][1].value)
        unique = {frozen(value): value for value in found}
        fine = all(value is None or type(value) in (bool, int, float, str) for value in found)
        return list(unique.values()) if fine and found else None

    def tensors(self, body: int, name: str) -> list[TensorSpec] | None:
        """What tensors a parameter was given; None where it was given anything else."""
        found = []
        for leaves in self.by_name.get((body, name), []):
            if len(leaves) != 1 or leaves[0][0] or not isinstance(leaves[0][1], TensorSpec):
                return None
            found.append(leaves[0][1])
        return found or None


def _conditions(
    specs: _Specs, names: Sequence[Sequence[str]], union: Sequence[str], renamed: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """When each body but the last runs, and the parameters that tell; None where the arguments do not."""
    bodies = range(len(names))
    conditions, telling = [], []
    for body in bodies[:-1]:
        others = [other for other in bodies if other > body]
        for name in union:
            text = renamed[name]
            found = _by_constant(specs, names, name, body, others, text) or _by_shape(specs, name, body, others, text)
            if found:
                conditions.append(found)
                telling.append(name)
                break
        else:
            return None
    return tuple(conditions), tuple(dict.fromkeys(telling))


def _by_constant(
    specs: _Specs, names: Sequence[Sequence[str]], name: str, body: int, others: Sequence[int], text: str
) -> str:
    own = specs.constants(body, name, name in names[body])
    if own is None or len(own) != 1:
        return ""
    value = own[0]
    for other in others:
        theirs = specs.constants(other, name, name in names[other])
        is_tensor = value is None and specs.tensors(other, name) is not None
        if not is_tensor and (theirs is None or any(_alike(value, their) for their in theirs)):
            return ""
    if value is None or isinstance(value, bool):
        return f"{text} is {value}"
    return f"{text} == {value!r}"


def _alike(value: Any, other: Any) -> bool:
    if value is None or other is None or isinstance(value, bool) or isinstance(other, bool):
        return value is other or (value is not None and other is not None and value == other)
    return bool(value == other) or value != value or other != other  # noqa: PLR0124 - NaNs


def _by_shape(specs: _Specs, name: str, body: int, others: Sequence[int], text: str) -> str:
    own, theirs = specs.tensors(body, name), [specs.tensors(other, name) for other in others]
    if own is None or any(each is None for each in theirs):
        return ""
    rest = [spec for each in theirs if each for spec in each]
    ranks = {len(spec.shape) for spec in own}
    if len(ranks) == 1 and not ranks & {len(spec.shape) for spec in rest}:
        return f"{text}.dim() == {ranks.pop()}"
    for dimension in range(min(len(spec.shape) for spec in (*own, *rest))):
        sizes = {spec.shape[dimension] for spec in own}
        different = {spec.shape[dimension] for spec in rest}
        fixed = all(isinstance(size, int) for size in (*sizes, *different))
        if fixed and len(sizes) == 1 and not sizes & different:
            return f"{text}.shape[{dimension}] == {sizes.pop()}"
    return ""
