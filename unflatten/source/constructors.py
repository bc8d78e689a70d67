"""Constructors of written classes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from unflatten.code.body import Body
from unflatten.source.containers import Imports
from unflatten.source.expressions import Argument, Expression, Instance, Items, Literal, New, Ref
from unflatten.source.functions import MethodWriter
from unflatten.source.graphs import Graphs
from unflatten.source.grouping import Classes, Forms, Group
from unflatten.source.parts import Link, Tensor
from unflatten.source.text import is_plain, quoted

RESERVED = frozenset(dir(nn.ModuleDict())) | frozenset(dir(nn.ParameterDict())) | {"self"}
_NOTHING = Body((), True, (), None, ())


@dataclass(frozen=True, slots=True)
class Constructors:
    """Writes what `__init__` does.

    Attributes:
        classes: the classes.
        imports: gets what the file has to import.
    """

    classes: Classes
    imports: Imports

    def lines(self, group: Group) -> Iterator[tuple[str, str]]:
        """The statements of a class's `__init__`, each with the condition on it."""
        for name in group.kept:
            yield "", f"self.{name} = {name}"
        for forms, tensor in group.tensors:
            yield from ((_when(group, forms), line) for line in self.tensor(tensor))
        for forms, name, child in group.children:
            yield _when(group, forms), self.child(name, child)
        for forms, link in group.links:
            yield _when(group, forms), self.link(link)

    def parameters(self, group: Group) -> list[str]:
        """The parameters of a class's `__init__`."""
        needed = [name for name in group.arguments if name not in group.optional]
        return ["self", *needed, *(f"{name}=None" for name in group.arguments if name in group.optional)]

    def tensor(self, tensor: Tensor) -> list[str]:
        """What registers a tensor."""
        made, name = self.show(tensor.made), tensor.name
        plain = is_plain(name) and name not in RESERVED
        if tensor.kind == "parameter":
            if plain and made != "None":
                return [f"self.{name} = {made}"]
            table = name in RESERVED or "." in name or not name
            return [
                f"self._parameters[{quoted(name)}] = {made}"
                if table
                else f"self.register_parameter({quoted(name)}, {made})"
            ]
        if tensor.kind == "constant":
            return [f"self.{name} = {made}" if plain else f"self.__dict__[{quoted(name)}] = {made}"]
        lasting = tensor.kind == "buffer"
        if name in RESERVED or "." in name or not name:
            marked = [] if lasting else [f"self._non_persistent_buffers_set.add({quoted(name)})"]
            return [f"self._buffers[{quoted(name)}] = {made}", *marked]
        return [f"self.register_buffer({quoted(name)}, {made}{'' if lasting else ', persistent=False'})"]

    def child(self, name: str, value: Expression) -> str:
        """What registers a module."""
        made = self.show(value)
        if is_plain(name) and name not in RESERVED and made != "None":
            return f"self.{name} = {made}"
        if name in RESERVED or "." in name or not name:
            return f"self._modules[{quoted(name)}] = {made}"
        return f"self.add_module({quoted(name)}, {made})"

    def link(self, link: Link) -> str:
        """What sets a name once all is made."""
        owner, target = self.reached(link.owner), self.reached(link.target)
        value = self.attribute(target, link.tensor, "_parameters") if link.tensor else f"({target},)"
        if is_plain(link.name) and link.name not in RESERVED:
            return f"{owner}.{link.name} = {value}"
        return f"setattr({owner}, {quoted(link.name)}, {value})"

    def reached(self, names: Sequence[str]) -> str:
        """How a module is reached from `self`."""
        text = "self"
        for name in names:
            text = (
                f"{text}[{name}]"
                if name.isdigit() and str(int(name)) == name
                else self.attribute(text, name, "_modules")
            )
        return text

    @staticmethod
    def attribute(owner: str, name: str, table: str) -> str:
        """How something that a module holds is reached."""
        if is_plain(name) and name not in RESERVED:
            return f"{owner}.{name}"
        return f"{owner}.{table}[{quoted(name)}]" if table == "_modules" else f"getattr({owner}, {quoted(name)})"

    def show(self, value: Expression) -> str:
        """What makes something, as Python."""
        if isinstance(value, Literal):
            return MethodWriter(_NOTHING, self.imports, Graphs()).show(value.value).text
        if isinstance(value, Argument):
            return value.name
        if isinstance(value, Ref):
            return self.reached(value.path.names)
        if isinstance(value, New):
            given = [self.show(item) for _, item in value.positional]
            given += [f"{name}={self.show(item)}" for name, item in value.said()]
            return f"{value.callee}({', '.join(given)})"
        if isinstance(value, Items):
            return self.items(value)
        made = self.classes.made(value.path) if isinstance(value, Instance) else value
        group = self.classes.groups[made.group]
        given = [
            f"{name}={self.show(item)}"
            for name, item in made.arguments.items()
            if name not in group.optional or not isinstance(item, Literal) or item.value is not None
        ]
        return f"{group.name}({', '.join(given)})"

    def items(self, value: Items) -> str:
        """A container with what it holds."""
        shown = [self.show(item) for _, item in value.items]
        names = [name for name, _ in value.items]
        numbered = names == [str(at) for at in range(len(names))]
        if value.callee in ("ModuleDict", "ParameterDict"):
            pairs = ", ".join(f"{quoted(name)}: {item}" for name, item in zip(names, shown, strict=True))
            return f"nn.{value.callee}({f'{{{pairs}}}' if pairs else ''})"
        if value.callee == "Sequential" and not numbered:
            self.imports.modules.add("collections")
            pairs = ", ".join(f"({quoted(name)}, {item})" for name, item in zip(names, shown, strict=True))
            return f"nn.Sequential(collections.OrderedDict([{pairs}]))"
        alike = len(shown) > 1 and len(set(shown)) == 1 and "(" in shown[0] and "self." not in shown[0]
        if value.callee == "Sequential":
            return (
                f"nn.Sequential(*[{shown[0]} for _ in range({len(shown)})])"
                if alike and len(shown) > 2
                else (f"nn.Sequential({', '.join(shown)})")
            )
        inner = f"{shown[0]} for _ in range({len(shown)})" if alike else ", ".join(shown)
        return f"nn.{value.callee}([{inner}])" if shown else f"nn.{value.callee}()"


def _when(group: Group, forms: Forms) -> str:
    """The condition under which a module is of some forms."""
    name = group.kept[0] if group.kept else ""
    return "" if not forms else f"{name} == {forms[0]}" if len(forms) == 1 else f"{name} in {forms}"
