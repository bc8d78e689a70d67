"""Modules that are alike become one class; what they differ in becomes the arguments of its constructor."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from unflatten.code.body import Body, Held, Step
from unflatten.paths import ModulePath
from unflatten.source.expressions import Argument, Expression, Instance, Items, Literal, Made, New, Ref
from unflatten.source.parts import Part, Tensor, filled
from unflatten.source.text import MODULES, identifier, unused

_RESERVED = frozenset(dir(nn.Module())) | MODULES | {"training"}


@dataclass(eq=False, slots=True)
class Group:
    """A class to be written, and the modules of it.

    Attributes:
        number: which class it is.
        parts: the modules, in the order of the tree.
        name: what it is called.
        arguments: for each argument of its constructor, what each module is given.
        kept: the arguments that its code uses, so that the module has to keep them.
        bodies: its code.
        tensors: what it holds.
        children: what is inside.
        below: the classes that its constructor uses.
    """

    number: int
    parts: list[Part]
    name: str = ""
    arguments: dict[str, list[Expression]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    bodies: tuple[Body, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    children: tuple[tuple[str, Expression], ...] = ()
    is_done: bool = False

    @property
    def first(self) -> Part:
        """The module that stands for all."""
        return self.parts[0]


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
            key = part.key()
            if key not in by_key:
                by_key[key] = Group(len(made.groups), [])
                made.groups.append(by_key[key])
            made.places[path] = len(by_key[key].parts)
            by_key[key].parts.append(part)
            made.of[path] = by_key[key]
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

    def run(self) -> None:
        group, parts = self.group, self.group.parts
        values: dict[int, object] = {}
        for at, (hint, _) in enumerate(parts[0].constants):
            unified = self.unify([part.constants[at][1] for part in parts], hint)
            if isinstance(unified, Argument):
                if unified.name not in group.kept:
                    group.kept.append(unified.name)
                values[at] = Held((Step(unified.name),))
            elif isinstance(unified, Literal):
                values[at] = unified.value
        group.bodies = tuple(filled(body, values) for body in parts[0].bodies)
        group.tensors = tuple(
            Tensor(tensor.name, tensor.kind, self.unify([part.tensors[at].made for part in parts], tensor.name))
            for at, tensor in enumerate(parts[0].tensors)
        )
        group.children = tuple(
            (name, self.unify([part.children[at][1] for part in parts], name))
            for at, (name, _) in enumerate(parts[0].children)
        )

    def unify(self, values: Sequence[Expression], hint: str) -> Expression:
        """What stands for several expressions, one for each module of the class."""
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
        positional = tuple(
            (name, self.unify([value.positional[at][1] for value in values], name))
            for at, (name, _) in enumerate(values[0].positional)
        )
        named = tuple(
            (name, self.unify([value.named[at][1] for value in values], name))
            for at, (name, _) in enumerate(values[0].named)
        )
        return New(values[0].callee, positional, named, values[0].defaults)

    def items(self, values: Sequence[Items]) -> Items:
        found = tuple(
            (name, self.unify([value.items[at][1] for value in values], name))
            for at, (name, _) in enumerate(values[0].items)
        )
        return Items(values[0].callee, found)

    def instance(self, values: Sequence[Expression]) -> Expression | None:
        paths = [value.path for value in values if isinstance(value, Instance)]
        groups = {self.classes.of[path].number: self.classes.of[path] for path in paths}
        if len(paths) != len(values) or len(groups) != 1:
            return None
        group = next(iter(groups.values()))
        if not group.is_done:
            return None
        made = [self.classes.made(path) for path in paths]
        return Made(
            group.number, {name: self.unify([one.arguments[name] for one in made], name) for name in group.arguments}
        )

    def reference(self, values: Sequence[Expression]) -> Expression | None:
        """A module that was made before, inside of the same one."""
        found = set()
        for part, value in zip(self.group.parts, values, strict=True):
            if not isinstance(value, Ref) or value.inside or not value.path.is_within(part.path):
                return None
            found.add(value.path.below(part.path))
        return Ref(ModulePath(found.pop()), inside=True) if len(found) == 1 else None

    def argument(self, values: Sequence[Expression], hint: str) -> Argument:
        """An argument of the constructor; one for all that are the same in each module."""
        keys = [value.key() if isinstance(value, Literal) else None for value in values]
        key: Hashable = tuple(keys) if None not in keys else None
        if key is not None and key in self.by_values:
            return Argument(self.by_values[key])
        part = self.group.first
        taken = {*self.group.arguments, *_RESERVED, *(name for name, _ in part.children)}
        taken |= {tensor.name for tensor in part.tensors}
        if key is None:  # a module may be given under the name of the child that it becomes
            taken -= {name for name, _ in part.children if name not in _RESERVED and name not in self.group.arguments}
        name = unused(identifier(hint, "value"), taken)
        self.group.arguments[name] = list(values)
        if key is not None:
            self.by_values[key] = name
        return Argument(name)


def _all(values: Sequence[Expression], kind: type, key: Callable[..., Hashable]) -> bool:
    return all(isinstance(value, kind) for value in values) and len({key(value) for value in values}) == 1
