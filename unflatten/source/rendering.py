"""Classes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from unflatten.code.blocks import mode_text
from unflatten.code.body import Body
from unflatten.flat.values import SubGraph
from unflatten.source.constructors import Constructors
from unflatten.source.containers import Imports
from unflatten.source.formatting import layout
from unflatten.source.functions import MethodWriter
from unflatten.source.grouping import Group
from unflatten.source.text import prose, unused


@dataclass(slots=True)
class Renderer:
    """Writes classes.

    Attributes:
        constructors: writes constructors.
        imports: gets what the file has to import.
        checks: what the root's code begins with.
        training: whether the program was captured in train mode.
        fixed: whether it can't leave its mode.
    """

    constructors: Constructors
    imports: Imports
    checks: Sequence[str] = ()
    training: bool = True
    fixed: bool = False
    graphs: dict[str, SubGraph] = field(default_factory=dict)

    def lines(self, group: Group) -> Iterator[str]:
        """One class."""
        yield f"class {group.name}(nn.Module):"
        yield f'    """{self.title(group)}"""'
        yield from self.constructor(group)
        yield from self.methods(group)
        if not group.first.path.names and self.fixed:
            yield from self.mode()

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
        lines = self.constructors.lines(group)
        if not group.first.path.names and not self.training:
            lines.append("super().train(False)")
        if not lines:
            return
        yield ""
        yield from layout(f"def __init__({', '.join(['self', *group.arguments])}):", 4)
        yield "        super().__init__()"
        for line in lines:
            yield from layout(line, 8)

    def methods(self, group: Group) -> Iterator[str]:
        """`forward`, and where it runs several bodies, a method for each."""
        signature, part = group.first.signature, group.first
        if not group.bodies:
            return
        kept = [self.parameter(group, name) for name in signature.kept] + ([signature.form] if signature.form else [])
        several = len(group.bodies) > 1
        names = ["forward"]
        if several:
            taken = (
                {name for name, _ in part.children} | {tensor.name for tensor in part.tensors} | set(dir(nn.Module()))
            )
            names = [unused(f"forward_{at + 1}", taken) for at in range(len(group.bodies))]
            yield from self.dispatch(group, kept, names)
        for at, (name, body) in enumerate(zip(names, group.bodies, strict=True)):
            used = [signature.renamed[each] for each in signature.kept if each in signature.used[at]]
            yield ""
            yield from layout(f"def {name}({', '.join(['self', *(used if several else kept)])}):", 4)
            yield from self.code(group, at, body, () if several or part.path.names else self.checks)

    def parameter(self, group: Group, name: str) -> str:
        """A parameter of `forward`."""
        signature = group.first.signature
        return f"{signature.renamed[name]}=None" if name in signature.optional else signature.renamed[name]

    def dispatch(self, group: Group, kept: list[str], names: Sequence[str]) -> Iterator[str]:
        """The `forward` of a module with several bodies."""
        signature = group.first.signature
        yield ""
        yield from layout(f"def forward({', '.join(['self', *kept])}):", 4)
        for line in self.checks if not group.first.path.names else ():
            yield from layout(line, 8)
        for at, name in enumerate(names):
            used = [signature.renamed[each] for each in signature.kept if each in signature.used[at]]
            call = f"return self.{name}({', '.join(used)})"
            if at < len(signature.conditions):
                yield from layout(f"if {signature.conditions[at]}:", 8)
                yield from layout(call, 12)
            else:
                yield from layout(call, 8)

    def code(self, group: Group, at: int, body: Body, checks: Sequence[str]) -> Iterator[str]:
        """The lines of a method."""
        shapes = group.first.shapes[at] if at < len(group.first.shapes) else ""
        if shapes:
            yield from comment(shapes)
        for line in checks:
            yield from layout(line, 8)
        signature = group.first.signature
        fixed = replace(body, parameters=tuple(replace(p, name=signature.renamed[p.name]) for p in body.parameters))
        writer = MethodWriter(fixed, self.imports, self.graphs)
        current = None
        statements = writer.statements()
        for modes, line in statements:
            if modes and modes != current:
                yield from layout(f"with {', '.join(mode_text(mode, 'torch') for mode in modes)}:", 8)
            current = modes
            yield from layout(line, 12 if modes else 8)
        if not statements:
            yield "        pass"


def comment(text: str) -> Iterator[str]:
    """A comment in lines of a fitting length."""
    line = "        #"
    for word in text.split(" "):
        if len(line) + len(word) + 1 > 88 and line.strip() != "#":
            yield line
            line = "        #  "
        line += f" {word}"
    yield line
