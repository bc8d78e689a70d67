"""Modules that are alike become one class; what they differ in becomes the arguments of its constructor."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from torch import nn

from unflatten.code.body import Body, Held, Step
from unflatten.paths import ModulePath
from unflatten.source.expressions import Argument, Expression, Instance, Items, Literal, Made, New, Ref
from unflatten.source.families import merged
from unflatten.source.parts import Link, Part, Tensor, filled
from unflatten.source.text import MODULES, identifier, unused

_RESERVED = frozenset(dir(nn.Module())) | MODULES | {"training"}
FORM = "form"
"""The argument of a constructor that tells which of several codes a module has."""
Forms = tuple[int, ...]
"""The forms of a class that have something; empty where all have it."""
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Group:
    """A class to be written, and the modules of it.

    Attributes:
        number: which class it is.
        parts: the modules, in the order of the tree.
        forms: the modules of each form, by their places among `parts`; those of one form differ in numbers only.
        name: what it is called.
        arguments: for each argument of its constructor, what each module is given.
        optional: those that only some forms have.
        kept: the arguments that its code uses, so that the module has to keep them.
        bodies: the code of each form.
        tensors: what it holds, and in which forms.
        children: what is inside, likewise.
        links: what is set at the end, likewise.
    """

    number: int
    parts: list[Part]
    forms: dict[Hashable, list[int]] = field(default_factory=dict)
    name: str = ""
    arguments: dict[str, list[Expression]] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    kept: list[str] = field(default_factory=list)
    bodies: list[tuple[Body, ...]] = field(default_factory=list)
    tensors: list[tuple[Forms, Tensor]] = field(default_factory=list)
    children: list[tuple[Forms, str, Expression]] = field(default_factory=list)
    links: list[tuple[Forms, Link]] = field(default_factory=list)
    is_done: bool = False

    @property
    def first(self) -> Part:
        """The module that stands for all."""
        return self.parts[0]

    @property
    def examples(self) -> list[Part]:
        """A module of each form."""
        return [self.parts[places[0]] for places in self.forms.values()]

    def names(self) -> set[str]:
        """What modules of the class hold, by name."""
        held = {tensor.name for part in self.examples for tensor in part.tensors}
        return held | {name for part in self.examples for name, _ in part.children}


@dataclass(slots=True)
class Classes:
    """The classes of a tree.

    Attributes:
        groups: the classes.
        of: the class of each module, by path.
        places: for each module, which of its class it is.
        order: the classes in the order in which they are to be written: what one uses is before it.
    """

    groups: list[Group] = field(default_factory=list)
    of: dict[ModulePath, Group] = field(default_factory=dict)
    order: list[Group] = field(default_factory=list)
    places: dict[ModulePath, int] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)

    @staticmethod
    def of_parts(parts: Mapping[ModulePath, Part]) -> Classes:
        """Sorts modules into classes."""
        made = Classes()
        by_key: dict[Hashable, Group] = {}
        for path, part in parts.items():
            form = part.key()
            key = form if part.family is None else ("family", part.family)
            if key not in by_key:
                by_key[key] = Group(len(made.groups), [])
                made.groups.append(by_key[key])
            group = by_key[key]
            made.places[path] = len(group.parts)
            group.forms.setdefault(form, []).append(len(group.parts))
            group.parts.append(part)
            made.of[path] = group
        for group in made.groups:
            made.settle(group)
        taken: set[str] = set()
        for group in made.order:
            group.name = unused(group.first.name, taken)
            taken.add(group.name)
        return made

    def settle(self, group: Group) -> None:
        """Finds what the modules of a class differ in, and before that, for the classes inside it."""
        if group.is_done or group.number in self.busy:
            return
        self.busy.add(group.number)
        for part in group.parts:
            for _, child in part.children:
                for path in instances(child):
                    self.settle(self.of[path])
        _Unifier(self, group).run()
        self.busy.discard(group.number)
        group.is_done = True
        self.order.append(group)

    def made(self, path: ModulePath) -> Made:
        """A module with the arguments of its constructor."""
        group = self.of[path]
        at = self.places[path]
        return Made(group.number, {name: values[at] for name, values in group.arguments.items()})


def instances(value: Expression) -> list[ModulePath]:
    """The modules of written classes in an expression."""
    if isinstance(value, Instance):
        return [value.path]
    if isinstance(value, Items):
        return [path for _, item in value.items for path in instances(item)]
    return []


@dataclass(slots=True)
class _Unifier:
    """Writes the constructor of one class."""

    classes: Classes
    group: Group
    by_values: dict[Hashable, str] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)

    def run(self) -> None:
        """Finds the arguments, and what the class holds and does in terms of them."""
        group = self.group
        if len(group.forms) > 1:
            form_of = {place: at for at, places in enumerate(group.forms.values(), 1) for place in places}
            self.places = list(range(len(group.parts)))
            group.kept.append(self.argument([Literal(form_of[place]) for place in self.places], FORM).name)
        for places in group.forms.values():
            self.places = places
            group.bodies.append(self.code())
        parts, examples = group.parts, group.examples
        for name in merged([[tensor.name for tensor in part.tensors] for part in examples]) or ():
            forms, tensors = self.having([[each for each in part.tensors if each.name == name] for part in parts])
            made = self.unify([tensor.made for tensor in tensors], name)
            group.tensors.append((forms, Tensor(name, tensors[0].kind, made)))
        for name in merged([[child for child, _ in part.children] for part in examples]) or ():
            forms, children = self.having([[child for each, child in part.children if each == name] for part in parts])
            group.children.append((forms, name, self.unify(children, name)))
        for link in dict.fromkeys(link for part in examples for link in part.links):
            forms, _ = self.having([[one for one in part.links if one == link] for part in parts])
            group.links.append((forms, link))

    def code(self) -> tuple[Body, ...]:
        """The bodies of the modules of one form, with numbers where these agree."""
        parts = [self.group.parts[place] for place in self.places]
        values: dict[int, object] = {}
        for at, (hint, _) in enumerate(parts[0].constants):
            unified = self.unify([part.constants[at][1] for part in parts], hint)
            if isinstance(unified, Argument):
                if unified.name not in self.group.kept:
                    self.group.kept.append(unified.name)
                values[at] = Held((Step(unified.name),))
            elif isinstance(unified, Literal):
                values[at] = unified.value
        return tuple(filled(body, values) for body in parts[0].bodies)

    def having(self, found: Sequence[Sequence[T]]) -> tuple[Forms, list[T]]:
        """The forms that have something, and what each module of them has; sets the places of these modules.

        Args:
            found: for each module of the class, what it has.
        """
        groups = list(self.group.forms.values())
        forms = [at for at, places in enumerate(groups, 1) if found[places[0]]]
        self.places = sorted(place for form in forms for place in groups[form - 1])
        values = [found[place][0] for place in self.places]
        return () if len(forms) == len(groups) else tuple(forms), values

    def unify(self, values: Sequence[Expression], hint: str) -> Expression:
        """What stands for several expressions, one for each module."""
        unified = self.alike(values)
        return self.argument(values, hint) if unified is None else unified

    def alike(self, values: Sequence[Expression]) -> Expression | None:
        """An expression that several differ from in arguments only; None where they differ in more."""
        first = values[0]
        if isinstance(first, Literal):
            return first if _all(values, Literal, Literal.key) else None
        if isinstance(first, New) and _all(values, New, New.shape):
            return self.new([value for value in values if isinstance(value, New)])
        if isinstance(first, Items) and _all(values, Items, Items.shape):
            return self.items([value for value in values if isinstance(value, Items)])
        if isinstance(first, Instance):
            return self.instance(values)
        return self.reference(values) if isinstance(first, Ref) else None

    def new(self, values: Sequence[New]) -> New:
        """A call with what its arguments agree in."""
        positional = self.each([value.positional for value in values])
        return New(values[0].callee, positional, self.each([value.named for value in values]), values[0].defaults)

    def items(self, values: Sequence[Items]) -> Items:
        """A container with what its items agree in."""
        return Items(values[0].callee, self.each([value.items for value in values]))

    def each(self, rows: Sequence[Sequence[tuple[str, Expression]]]) -> tuple[tuple[str, Expression], ...]:
        """Named expressions one by one."""
        return tuple((name, self.unify([row[at][1] for row in rows], name)) for at, (name, _) in enumerate(rows[0]))

    def instance(self, values: Sequence[Expression]) -> Expression | None:
        """A module of a written class, with what its arguments agree in."""
        paths = [value.path for value in values if isinstance(value, Instance)]
        groups = {self.classes.of[path].number: self.classes.of[path] for path in paths}
        if len(paths) != len(values) or len(groups) != 1:
            return None
        group = next(iter(groups.values()))
        if not group.is_done:
            return None
        made = [self.classes.made(path) for path in paths]
        arguments = {name: self.unify([one.arguments[name] for one in made], name) for name in group.arguments}
        return Made(group.number, arguments)

    def reference(self, values: Sequence[Expression]) -> Expression | None:
        """A module that was made before, inside of the same one."""
        found = set()
        for place, value in zip(self.places, values, strict=True):
            part = self.group.parts[place]
            if not isinstance(value, Ref) or value.inside or not value.path.is_within(part.path):
                return None
            found.add(value.path.below(part.path))
        return Ref(ModulePath(found.pop()), inside=True) if len(found) == 1 else None

    def argument(self, values: Sequence[Expression], hint: str) -> Argument:
        """An argument of the constructor; one for all that are the same in each module."""
        count = len(self.group.parts)
        whole: list[Expression] = [Literal(None)] * count
        for place, value in zip(self.places, values, strict=True):
            whole[place] = value
        keys = [value.key() if isinstance(value, Literal) else id(value) for value in whole]
        simple = all(isinstance(value, Literal) for value in whole)
        key = tuple(keys) if simple else None
        if key is not None and key in self.by_values:
            return Argument(self.by_values[key])
        taken = {*self.group.arguments, *_RESERVED}
        taken |= self.group.names() if simple else set()  # a module may go by the name of the child that it becomes
        name = unused(identifier(hint, "value"), taken)
        self.group.arguments[name] = whole
        if len(values) < count:
            self.group.optional.add(name)
        if key is not None:
            self.by_values[key] = name
        return Argument(name)


def _all(values: Sequence[Expression], kind: type, key: Callable[..., Hashable]) -> bool:
    return all(isinstance(value, kind) for value in values) and len({key(value) for value in values}) == 1
