"""Bodies as the methods of written classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from unflatten.code.body import Apply, Body, Held, Invoke, Local, Step
from unflatten.code.codegen import Writer
from unflatten.code.nesting import Access, Leaf, Made, Rebuilt
from unflatten.code.spelling import ATOM, Text
from unflatten.flat.values import Modes
from unflatten.source.containers import Imports, container, object_of
from unflatten.source.graphs import Graphs
from unflatten.source.local_names import operator_name
from unflatten.source.loops import Loop
from unflatten.source.text import MODULES, is_plain, quoted
from unflatten.source.tidying import device_of, to

_INDEX = torch.ops.aten.index.Tensor


class MethodWriter(Writer):
    """Writes a body so that it needs only torch."""

    width = 78

    def __init__(self, body: Body, imports: Imports, graphs: Graphs, taken: frozenset[str] = frozenset()) -> None:
        super().__init__(body)
        self.imports = imports.within(self.parameter_names)
        self.graphs = graphs
        self.taken = taken
        self.first = {
            step.out: step.args[0].index
            for step in body.steps
            if isinstance(step, Apply)
            and step.args
            and isinstance(step.args[0], Local)
            and step.target is not device_of
        }

    def apply(self, step: Apply) -> None:
        """Writes an operator."""
        self.imports.operator(step.target)
        if step.target is device_of:
            text = self.expression_of(step.args, step.modes, lambda: Text(f"{self.show(step.args[0]).text}.device"))
            self.finish(step.out, text, step.modes, named=False)
        elif step.target is to:
            text = self.expression_of(
                step.args,
                step.modes,
                lambda: Text(f"{self.show(step.args[0]).at(ATOM)}.to({self.arguments(step.args[1:], {})})"),
            )
            self.finish(step.out, text, step.modes, named=False)
        elif step.target is _INDEX and not step.kwargs and None not in step.args[1]:
            text = self.expression_of(step.args, step.modes, lambda: self.indexed(step))
            self.finish(step.out, text, step.modes, named=False)
        else:
            super().apply(step)

    def flush(self, count: int) -> None:
        """Writes down the first pending expressions, each under its own name or that of what it is made of.

        A variable gives its name away only to what goes by the same, or by nothing but the name of an operator.
        """
        for _ in range(count):
            pending = self.pending.pop(0)
            own, name = self.body.names[pending.local], operator_name(self.body.steps[pending.at])
            heir = self.made_of(pending.local) if own.strip("_") == name.strip("_") else None
            heirs = [
                local
                for local in pending.operands
                if (local == heir or self.names.get(local) == own) and self.is_dying(local, pending.at, arithmetic=True)
            ]
            self.assign(pending.local, pending.text, pending.modes, heirs)

    def made_of(self, local: int) -> int | None:
        """The variable that a value is a later form of: its operator's first operand, or what that one is made of."""
        at: int | None = self.first.get(local)
        while at is not None and at not in self.names:
            at = self.first.get(at)
        return at

    def step(self, step: Apply | Invoke) -> None:
        """Writes an operator, a call, or a loop."""
        if isinstance(step, Loop):
            self.loop(step)
        else:
            super().step(step)

    def loop(self, step: Loop) -> None:
        """Writes `for layer in self.layers`."""
        self.flush(len(self.pending))
        init, (out, access) = step.args[0].index, step.outs[0]
        name = self.names[init]
        if self.last_use.get(init, -1) > self.at or self.holder.get(name) != init:
            self.names[step.carried] = self.fresh(self.body.names[out])
            self.statement(step.modes, f"{self.names[step.carried]} = {name}")
            name = self.names[step.carried]
        self.names[step.carried] = name
        layer = self.fresh("layer")
        call = self.accessed(f"{layer}({self.arguments(step.args[1:], step.kwargs)})", access)
        self.statement(step.modes, f"for {layer} in {self.held(step.module)}:")
        self.statement(step.modes, f"    {name} = {call}")
        self.holder.pop(layer)
        self.names[out], self.holder[name] = name, out
        if not self.uses.get(out):
            self.holder.pop(name)

    def indexed(self, step: Apply) -> Text:
        """`x[i, j]`."""
        tensor, indices = step.args
        return Text(f"{self.show(tensor).at(ATOM)}[{', '.join(self.show(index).text for index in indices)}]")

    def is_taken(self, name: str) -> bool:
        """Whether a name still means something else."""
        return name in MODULES or name in {"l", "O", "I"} or name in self.taken or super().is_taken(name)

    def built(self, value: Rebuilt | Made) -> Text:
        """A container or object that Python has no display for."""
        if isinstance(value, Rebuilt):
            return Text(container(value.spec, value.leaves, self.imports, lambda leaf: self.show(leaf).text))
        fields = {name: self.show(item).text for name, item in value.fields.items()}
        return Text(object_of(value.kind, fields, self.imports))

    def constant(self, value: Any) -> Text:
        """A constant as Python."""
        if isinstance(value, str):
            return Text(quoted(value))
        if isinstance(value, torch.device):
            return Text(f"{self.helper('torch')}.device({quoted(str(value))})")
        if isinstance(value, complex):
            return Text(f"complex({self.constant(value.real).text}, {self.constant(value.imag).text})")
        text = super().constant(value)
        return Text(text.text.replace("e+", "e")) if isinstance(value, float) else text

    def object(self, value: Any, base: str) -> str:
        """The name of something that has no Python text of its own."""
        if isinstance(value, fx.GraphModule):
            return self.imports.seen(self.graphs.name(value, base))
        return self.imports.function(value)

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """What is between the parentheses of a call."""
        plain = {key: value for key, value in kwargs.items() if is_plain(key)}
        rest = {key: value for key, value in kwargs.items() if key not in plain}
        text = super().arguments(args, plain)
        return ", ".join([*([text] if text else []), f"**{self.show(rest).text}"]) if rest else text

    def held(self, held: Held) -> str:
        """A module or state entry as Python."""
        text = "self"
        for step in held.steps:
            text = self.stepped(text, step)
        return text

    def stepped(self, text: str, step: Step) -> str:
        """One step along a path."""
        if step.how in ("attr", "getattr"):
            return f"{text}.{step.name}" if is_plain(step.name) else f"getattr({text}, {quoted(step.name)})"
        if step.how == "item":
            return f"{text}[{int(step.name)}]"
        return f"{text}[{quoted(step.name)}]" if step.how == "key" else f"{text}.{step.how}[{quoted(step.name)}]"

    def accessed(self, text: str, access: Access) -> str:
        """A leaf of a nested value."""
        if any(isinstance(step, Leaf) for step in access):
            self.imports.modules.add("torch.utils._pytree")
            self.holder.setdefault("torch", -1)
        return super().accessed(text, access).replace("leaves(", "torch.utils._pytree.tree_leaves(")

    def statements(self) -> list[tuple[Modes, str]]:
        """The statements with the modes around each."""
        self.lines()
        return self.out


def statements_of(body: Body, imports: Imports, graphs: Graphs) -> list[tuple[Modes, str]]:
    """The statements of a body, in which no variable has the name of something in the file that the body uses."""
    taken: frozenset[str] = frozenset()
    while True:
        writer = MethodWriter(body, imports, graphs, taken)
        statements = writer.statements()
        hidden = writer.imports.used & writer.variables - writer.parameter_names
        if hidden <= taken:
            return statements
        taken |= hidden
