"""Writing down what each call computes: from arranged drafts to bodies.

Bodies of one module that compute the same are one body. They may differ in what is used of them outside;
then the body returns all of it, and each call site takes what it needs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from unflatten import _torch
from unflatten.code.body import Apply, Body, Held, Invoke, Local, Parameter, Step
from unflatten.code.labels import fresh, input_label, result_label
from unflatten.code.nesting import Access, Item, accesses, assemble
from unflatten.code.places import Namer
from unflatten.code.variants import Pending, Variant, is_guessed
from unflatten.flat.tensors import content_key
from unflatten.flat.values import FlatInput, FlatNode, Modes, Value
from unflatten.grouping import scalars
from unflatten.grouping.drafts import Draft, item_key
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.modes import added_modes
from unflatten.grouping.naming import natural
from unflatten.grouping.ordering import Arrangement
from unflatten.grouping.shapes import is_size
from unflatten.paths import ModulePath
from unflatten.recording.record import is_handed_through
from unflatten.signatures import Form

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, eq=False, slots=True)
class _Written:
    """A draft's body as first written.

    Attributes:
        body: with calls inside it as `Pending`.
        values: the number of each value that it returns, for calls without a known form.
        origins: for each step, the operator or the call that it came from.
    """

    body: Body
    values: Mapping[FlatNode, int]
    origins: tuple[FlatNode | Draft, ...]


@dataclass(eq=False, slots=True)
class Bodies:
    """Every module's bodies, and which of them each call runs.

    Attributes:
        variants: the bodies of each module, in order.
        of_call: the body that a call runs.
        origins: for each call, where the steps of its body came from.
        literals: for each module, the tensors that its code was given names for.
        values: the number of each value that a call without a known form returns.
        genuine: the modules that need no body, because they are genuine ones.
    """

    grouping: Grouping
    arranged: Mapping[Draft, Arrangement]
    ambient: Mapping[Draft, Modes]
    namer: Namer
    genuine: frozenset[ModulePath] = frozenset()
    variants: dict[ModulePath, list[Variant]] = field(default_factory=dict)
    of_call: dict[Draft, Variant] = field(default_factory=dict)
    origins: dict[Draft, tuple[FlatNode | Draft, ...]] = field(default_factory=dict)
    literals: dict[ModulePath, dict[FlatInput, str]] = field(default_factory=dict)
    values: dict[Draft, Mapping[FlatNode, int]] = field(default_factory=dict)
    _keys: dict[tuple[ModulePath, Hashable], Variant] = field(default_factory=dict)

    def write(self) -> None:
        """Writes every body, inner calls first; within a level by path and call, then as the calls around them."""
        heights: dict[Draft, int] = {}
        for draft in reversed(list(self.grouping.drafts())):
            heights[draft] = 1 + max((heights[child] for child in draft.children), default=-1)
        for draft in self.grouping.idle:
            heights[draft] = 0
        for draft in sorted(heights, key=lambda draft: (heights[draft], item_key(draft))):
            if draft.path in self.genuine:
                self.of_call[draft] = Variant(_NO_BODY, 0, None, [draft])
            else:
                self._add(draft, _Writer(self, draft).write())
        for variants in self.variants.values():
            for variant in variants:
                variant.body = self._finish(variant)

    def literal_name(self, path: ModulePath, value: FlatInput) -> str:
        """The attribute under which a module keeps a tensor that its code spells out; equal ones share it."""
        names = self.literals.setdefault(self.namer.canonical(path), {})
        if value not in names:
            key = content_key(self.grouping.state.tensors[value])
            equal = (name for other, name in names.items() if content_key(self.grouping.state.tensors[other]) == key)
            names[value] = next(equal, f"constant_{len(set(names.values()))}")
        return names[value]

    def _add(self, draft: Draft, written: _Written) -> None:
        path = self.namer.canonical(draft.path)
        key = (path, _raw_key(written.body))
        variant = self._keys.get(key)
        if variant is None:
            variants = self.variants.setdefault(path, [])
            recorded = self.grouping.program.record is not None
            variant = self._keys[key] = Variant(written.body, len(variants), key[1], recorded=recorded)
            variants.append(variant)
        variant.drafts.append(draft)
        variant.outputs.update((index, None) for index in written.values.values())
        self.of_call[draft] = variant
        self.origins[draft] = written.origins
        self.values[draft] = written.values

    def _finish(self, variant: Variant) -> Body:
        """Settles a body's result and those of the calls in it."""
        body = variant.body
        steps = tuple(self._settle(step) if isinstance(step, Pending) else step for step in body.steps)
        result = body.result
        if variant.drafts[0].form is None:
            result = _plain_result(sorted(variant.outputs))
        settled = tuple((step.pick, step.outs, step.flat) for step in steps if isinstance(step, Invoke))
        variant.key = variant.key, settled, tuple(sorted(variant.outputs))
        return replace(body, steps=steps, result=result)

    def _settle(self, pending: Pending) -> Invoke:
        variant = pending.variant
        path = self.namer.canonical(variant.drafts[0].path)
        several = len(self.variants.get(path, ())) > 1
        pick = variant.index if several or is_guessed(variant) else None
        if not pending.values:
            return pending.settled(pick, pending.outs, pending.flat)
        returned = sorted(variant.outputs)
        outs = tuple(
            (local, () if len(returned) == 1 else (Item(returned.index(value)),)) for local, value in pending.values
        )
        return pending.settled(pick, outs, len(returned) if len(returned) > 1 else 0)


_NO_BODY = Body((), True, (), None, ())


def _plain_result(outputs: list[int]) -> Any:
    if len(outputs) == 1:
        return Local(outputs[0])
    return tuple(Local(index) for index in outputs) if outputs else None


def _raw_key(body: Body) -> Hashable:
    """The key of a body in which calls are still pending."""
    steps = tuple(replace(step, pick=step.variant.index) if isinstance(step, Pending) else step for step in body.steps)
    extra = tuple(step.values for step in body.steps if isinstance(step, Pending))
    return replace(body, steps=steps).key(), extra


class _Writer:
    """Writes the body of one draft."""

    def __init__(self, bodies: Bodies, draft: Draft) -> None:
        self.bodies = bodies
        self.grouping = bodies.grouping
        self.draft = draft
        self.arranged = bodies.arranged[draft]
        self.ambient = bodies.ambient.get(draft, ())
        self.env: dict[Value, Local | Held] = {}
        self.locals: dict[FlatNode, Local] = {}
        self.names: list[str] = []
        self.steps: list[Any] = []
        self.origins: list[FlatNode | Draft] = []

    def write(self) -> _Written:
        """The whole body."""
        parameters = self._parameters()
        for item in self.arranged.items:
            if isinstance(item, Draft):
                self._call(item)
            elif not is_handed_through(item.meta):
                self._apply(item, item)
        form = self.draft.form
        values: dict[FlatNode, int] = {}
        result, surplus = None, False
        if form is None:
            values = {value: self._computed(value) for value in self.arranged.outputs}
        else:
            leaves = [self._leaf(leaf) for leaf in form.results]
            result = assemble(form.out_spec, leaves)
            extras = self.extras(self.draft)
            surplus = bool(extras)
            if extras:
                result = (result, *(Local(self._computed(value)) for value in extras))
        named = form is not None
        body = Body(parameters, named, tuple(self.steps), result, tuple(self.names), surplus)
        return _Written(body, values, tuple(self.origins))

    def extras(self, draft: Draft) -> list[FlatNode]:
        """What a call with a known form returns beyond that form, because a pass made others use it."""
        form = draft.form
        results = form.results if form else ()
        declared = {self._resolved(leaf, draft) for leaf in results}
        declared.update(leaf for leaf in results if isinstance(leaf, FlatNode))
        return [value for value in self.bodies.arranged[draft].outputs if value not in declared]

    def _resolved(self, leaf: Any, draft: Draft) -> Any:
        return self.grouping.resolve(leaf, draft) if isinstance(leaf, FlatNode | FlatInput) else id(leaf)

    def _parameters(self) -> tuple[Parameter, ...]:
        form = self.draft.form
        made = []
        for name, leaves in form.parameters() if form else ():
            bound = []
            for leaf, access in leaves:
                if isinstance(leaf, FlatNode | FlatInput):
                    value = self.grouping.resolve(leaf, self.draft)
                    if value not in self.env:
                        bound.append(
                            (self._define(value, name if not access else natural(value.name)[0]).index, access)
                        )
            made.append(Parameter(name, tuple(bound)))
        taken = {parameter.name for parameter in made}
        for value in self.arranged.inputs:
            if value not in self.env:
                name = fresh(input_label(value), taken)
                taken.add(name)
                made.append(Parameter(name, ((self._define(value, name).index, ()),)))
        return tuple(made)

    def _define(self, value: Value | None, name: str) -> Local:
        local = Local(len(self.names))
        self.names.append(name)
        if value is not None:
            self.env[value] = local
            if isinstance(value, FlatNode):
                self.locals[value] = local
        return local

    def _leaf(self, leaf: Any) -> Any:
        return self.value(leaf) if isinstance(leaf, FlatNode | FlatInput) else leaf

    def _computed(self, value: FlatNode) -> int:
        """The number of an output; computes it first where it is a number that floats."""
        found = self.locals[value] if value in self.locals else self.value(value)
        if isinstance(found, Held):  # the call returned a part of its module
            found = self._define(None, natural(value.name)[0])
            self.steps.append(Apply(found.index, torch.ops.aten.alias.default, (self.value(value),), {}))
            self.origins.append(value)
        return found.index

    def value(self, value: Value) -> Local | Held:
        """How the body refers to a value; computes it first where it is a number that floats."""
        value = self.grouping.resolve(value, self.draft)
        if value not in self.env:
            if isinstance(value, FlatInput):
                self.env[value] = self._held(value)
            else:
                for scalar in scalars.parts(self.grouping, value, self.env):
                    self._scalar(scalar)
        return self.env[value]

    def _held(self, value: FlatInput) -> Held:
        state, path = self.grouping.state, self.draft.path
        if value in state.literals:
            return Held((Step(self.bodies.literal_name(path, value)),))
        owner, name = next(entry for entry in state.names[value] if entry[0].is_within(path))
        return self.bodies.namer.state(path, owner, name)

    def _scalar(self, scalar: FlatNode) -> None:
        if is_size(scalar):
            found = scalars.size_source(self.grouping, scalar, self.draft, self.arranged.inputs)
            if found is not None:
                tensor, dimension = found
                self._append(scalar, (self.value(tensor), dimension), {}, ())
                return
        self._apply(scalar, scalar)

    def _apply(self, node: FlatNode, origin: FlatNode) -> None:
        def argument(leaf: Any) -> Any:
            if not isinstance(leaf, FlatNode | FlatInput):
                return leaf
            return self.value(self.grouping.operand(node, leaf, self.draft))

        args = _torch.map_aggregate(node.args, argument)
        kwargs = _torch.map_aggregate(node.kwargs, argument) if node.kwargs else {}
        self._append(origin, args, kwargs, added_modes(node.modes, self.ambient))

    def _append(self, node: FlatNode, args: tuple[Any, ...], kwargs: Mapping[str, Any], modes: Modes) -> None:
        local = self._define(node, "size" if is_size(node) else natural(node.name)[0])
        self.steps.append(Apply(local.index, node.target, args, kwargs, modes))
        self.origins.append(node)

    def _call(self, child: Draft) -> None:
        variant = self.bodies.of_call[child]
        args, kwargs = self._arguments(child)
        outs, values = self._results(child)
        modes = added_modes(self.bodies.ambient.get(child, ()), self.ambient)
        module = self.bodies.namer.module(self.draft.path, child.path)
        flat = 0 if self.extras(child) else _flat(child.form, outs)
        self.steps.append(Pending(module, None, args, kwargs, outs, flat, modes, variant=variant, values=values))
        self.origins.append(child)

    def _arguments(self, child: Draft) -> tuple[tuple[Any, ...], dict[str, Any]]:
        inputs = self.bodies.arranged[child].inputs
        form = child.form
        if form is None:
            return tuple(self.value(value) for value in inputs), {}
        args, kwargs = assemble(form.in_spec, [self._leaf(leaf) for leaf in form.arguments])
        declared = {self.grouping.resolve(leaf, child) for leaf in form.values()}
        if child.path in self.bodies.genuine:
            return args, kwargs
        rest = [value for value in inputs if value not in declared]
        parameters = self.bodies.of_call[child].body.parameters[len(form.names) :]
        extra = {parameter.name: self.value(value) for parameter, value in zip(parameters, rest, strict=True)}
        return args, {**kwargs, **extra}

    def _results(self, child: Draft) -> tuple[tuple[tuple[int, Access], ...], tuple[tuple[int, int], ...]]:
        """Where the values that are used of a call are in what it returns: known, or settled later."""
        outputs = self.bodies.arranged[child].outputs
        form = child.form
        if form is None:
            written = self.bodies.values[child]
            return (), self._taken(child, {value: written[value] for value in outputs})
        genuine = child.path in self.bodies.genuine
        extras = [] if genuine else self.extras(child)
        places: dict[Value, Access] = {}
        for leaf, access in zip(form.results, accesses(form.out_spec), strict=True):
            if isinstance(leaf, FlatNode):
                place = (Item(0), *access) if extras else access
                if not genuine:
                    places.setdefault(self.grouping.resolve(leaf, child), place)
                places.setdefault(leaf, place)
        for at, value in enumerate(extras, 1):
            places[value] = (Item(at),)
        return self._taken(child, {value: places[value] for value in outputs}), ()

    def _taken(self, child: Draft, places: Mapping[FlatNode, P]) -> tuple[tuple[int, P], ...]:
        """Names what is used of a call's result; values that are one object, before and after a write, are one."""
        found: dict[P, Local] = {}
        for value, place in places.items():
            if place in found:
                self.env[value] = self.locals[value] = found[place]
            else:
                found[place] = self._define(value, result_label(child, value))
        return tuple((local.index, place) for place, local in found.items())


def _flat(form: Form | None, outs: Sequence[tuple[int, Access]]) -> int:
    """How many values a call's result can be unpacked into, 0 where the used ones are not all at its top."""
    if form is None or form.out_spec.type is not tuple or len(outs) < 2:
        return 0
    return form.out_spec.num_children if all(len(access) == 1 for _, access in outs) else 0
