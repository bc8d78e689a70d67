"""Classes as text."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from unflatten.code.blocks import mode_text
from unflatten.code.body import Body, Parameter
from unflatten.flat.values import Modes
from unflatten.source.constructors import Constructors
from unflatten.source.containers import Imports
from unflatten.source.formatting import layout
from unflatten.source.functions import statements_of
from unflatten.source.graphs import Graphs
from unflatten.source.grouping import Group
from unflatten.source.parts import Part, body_key
from unflatten.source.text import prose, unused

CONSTANTS = "move_constants"
"""The function that moves tensors which are neither parameters nor buffers."""


@dataclass(slots=True)
class Renderer:
    """Writes classes.

    Attributes:
        constructors: writes constructors.
        imports: gets what the file has to import.
        checks: what the root's code begins with.
        training: whether the program was captured in train mode.
        fixed: whether it can't leave its mode.
        graphs: gets the functions that operators are given.
    """

    constructors: Constructors
    imports: Imports
    checks: Sequence[str] = ()
    training: bool = True
    fixed: bool = False
    graphs: Graphs = field(default_factory=Graphs)

    def lines(self, group: Group) -> Iterator[str]:
        """One class."""
        yield f"class {group.name}(nn.Module):"
        yield f'    """{self.title(group)}"""'
        yield from self.constructor(group)
        yield from self.methods(group)
        if not group.first.path.names and self.fixed:
            yield from self.mode()
        if any(tensor.kind == "constant" for _, tensor in group.tensors):
            yield from ("", "    def _apply(self, fn, recurse=True):")
            yield f"        return {CONSTANTS}(super()._apply(fn, recurse), fn)"

    @staticmethod
    def title(group: Group) -> str:
        """What a class's docstring says."""
        path, rest = str(group.first.path), len(group.parts) - 1
        if not path:
            return "The whole model."
        others = f" and {rest} more" if rest else ""
        return prose(f"At {path if len(path) < 60 else group.first.path.name[:60]}{others}.")

    def mode(self) -> Iterator[str]:
        """A method that keeps the mode."""
        have = "train" if self.training else "eval"
        yield from ("", "    def train(self, mode=True):")
        yield f'        """Refuses another mode than {have}: operators were captured in it."""'
        yield f"        if {'not ' if self.training else ''}mode:"
        yield f'            raise RuntimeError("the model was captured in {have} mode")'
        yield "        return super().train(mode)"

    def constructor(self, group: Group) -> Iterator[str]:
        """`__init__`."""
        lines = list(self.constructors.lines(group))
        if not group.first.path.names and not self.training:
            lines.append(("", "super().train(False)"))
        if not lines:
            return
        yield ""
        yield from layout(f"def __init__({', '.join(self.constructors.parameters(group))}):", 4)
        yield "        super().__init__()"
        current = ""
        for condition, line in lines:
            if condition and condition != current:
                yield from layout(f"if {condition}:", 8)
            current = condition
            yield from layout(line, 12 if condition else 8)

    def methods(self, group: Group) -> Iterator[str]:
        """`forward`, and where it runs several bodies, a method for each."""
        methods: dict[Hashable, Method] = {}
        taken = group.names() | set(dir(nn.Module()))
        for part, bodies in zip(group.examples, group.bodies, strict=True):
            for at, body in enumerate(bodies):
                name = unused(f"forward_{len(methods) + 1}", taken)
                methods.setdefault(self.key(part, at, body), Method(name, part, at, body))
        if len(methods) > 1:
            yield from self.dispatch(group, methods)
        for method in methods.values():
            yield ""
            whole = len(methods) == 1
            kept = parameters(group) if whole else method.used()
            yield from layout(f"def {'forward' if whole else method.name}({', '.join(['self', *kept])}):", 4)
            names = [name.partition("=")[0] for name in kept]
            yield from self.code(method, names, self.checks if whole and not method.part.path.names else ())

    @staticmethod
    def key(part: Part, at: int, body: Body) -> Hashable:
        """Equal for bodies that one method does for."""
        names = tuple(part.signature.renamed[parameter.name] for parameter in body.parameters)
        return names, part.signature.needed(at), body_key(body)

    def dispatch(self, group: Group, methods: Mapping[Hashable, Method]) -> Iterator[str]:
        """The `forward` of modules with several bodies."""
        yield ""
        yield from layout(f"def forward({', '.join(['self', *parameters(group)])}):", 4)
        for line in self.checks if not group.first.path.names else ():
            yield from layout(line, 8)
        last = len(group.forms)
        for form, (part, bodies) in enumerate(zip(group.examples, group.bodies, strict=True), 1):
            found = [methods[self.key(part, at, body)] for at, body in enumerate(bodies)]
            indent = 8
            if form < last and found:
                yield f"        if self.{group.kept[0]} == {form}:"
                indent = 12
            for at, method in enumerate(found):
                call = f"return self.{method.name}({', '.join(method.used())})"
                if at < len(part.signature.conditions):
                    yield from layout(f"if {part.signature.conditions[at]}:", indent)
                    yield from layout(call, indent + 4)
                else:
                    yield from layout(call, indent)

    def functions(self) -> list[str]:
        """The functions that operators are given, those that others need first."""
        written: list[str] = []
        while len(written) < len(self.graphs.bodies):
            name, body = list(self.graphs.bodies.items())[len(written)]
            names = ", ".join(parameter.name for parameter in body.parameters)
            lines = [*layout(f"def {name}({names}):"), '    """What an operator runs."""']
            lines += _lines(statements_of(body, self.imports, self.graphs), 4)
            written.append("\n".join(lines))
        return written[::-1]

    def code(self, method: Method, names: Sequence[str], checks: Sequence[str]) -> Iterator[str]:
        """The lines of a method that has parameters of some names, whichever the program had."""
        shapes, signature = method.part.shapes, method.part.signature
        if method.at < len(shapes) and shapes[method.at]:
            yield from comment(shapes[method.at])
        for line in checks:
            yield from layout(line, 8)
        leaves = {signature.renamed[each.name]: each.leaves for each in method.body.parameters}
        named = tuple(Parameter(name, leaves.get(name, ())) for name in names)
        yield from _lines(statements_of(replace(method.body, parameters=named), self.imports, self.graphs), 8)


def _lines(statements: Sequence[tuple[Modes, str]], indent: int) -> Iterator[str]:
    """The lines of a body."""
    current = None
    for modes, line in statements:
        if modes and modes != current:
            yield from layout(f"with {', '.join(mode_text(mode, 'torch') for mode in modes)}:", indent)
        current = modes
        inner = len(line) - len(line.lstrip())
        yield from layout(line.lstrip(), indent + inner + (4 if modes else 0))
    if not statements:
        yield " " * indent + "pass"


@dataclass(frozen=True, eq=False, slots=True)
class Method:
    """A method to be written.

    Attributes:
        name: what it is called where there are several.
        part: a module that has it.
        at: which of that module's bodies it is.
        body: what it computes.
    """

    name: str
    part: Part
    at: int
    body: Body

    def used(self) -> list[str]:
        """The parameters that it needs."""
        used = self.part.signature.needed(self.at)
        return [name for name in self.part.signature.order if name in used]


def parameters(group: Group) -> list[str]:
    """The parameters of `forward`."""
    signatures = [part.signature for part in group.examples]
    optional = {one.renamed[name] for one in signatures for name in one.optional}
    optional |= {name for one in signatures for name in one.order if name not in one.shown()}
    optional.discard(signatures[0].form)
    return [f"{name}=None" if name in optional else name for name in signatures[0].order]


def comment(text: str) -> Iterator[str]:
    """A comment in lines of a fitting length."""
    line = "        #"
    for word in re.split(r" (?![^\[]*\])", text):  # a shape stays in one line
        if len(line) + len(word) + 1 > 88 and line.strip() != "#":
            yield line
            line = "        #  "
        line += f" {word}"
    yield line
