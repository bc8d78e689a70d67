"""Python for bodies: the `forward` that runs is the one that is read.

A value that is used once is written where it is used, as long as the line stays short and the order of
evaluation stays the same. What a module returns is named after the module. Any other variable takes the name
of one whose value is no longer needed, as a person would write it; that also frees the memory as early as the
original code did.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from unflatten.code.blocks import mode_text
from unflatten.code.body import Apply, Body, Held, Invoke, Local, Step
from unflatten.code.labels import fresh, graph_label
from unflatten.code.nesting import Access, Item, Leaf, Made, Rebuilt, reached
from unflatten.code.spelling import ATOM, Text, spell
from unflatten.code.uses import last_uses, locals_of, use_counts
from unflatten.flat.values import Modes, SubGraph
from unflatten.grouping.naming import is_plain

_DEPTH = 8
"""How many expressions wait at most for the one that uses them."""
HELPERS = frozenset({"torch", "F", "pick", "guess", "root", "moved", "rebuild", "leaves", "make"})
"""What code can use besides the objects that it names."""
_BUILTINS = frozenset({"getattr", "slice", "float"})
_TAKEN = {"self", *HELPERS, *_BUILTINS}


@dataclass(frozen=True, slots=True)
class Code:
    """The source of a function and the objects that it uses.

    Attributes:
        source: a `def` statement.
        objects: by the name under which the source uses them.
        renamed: helpers and builtins that go by another name, because a parameter has theirs.
    """

    source: str
    objects: Mapping[str, Any]
    renamed: Mapping[str, str]


def write_function(body: Body, name: str = "forward") -> Code:
    """The Python function of a body. Deterministic: equal bodies give equal source."""
    writer = Writer(body)
    lines = writer.lines()
    shown = (f"{parameter.name}=None" if parameter.optional else parameter.name for parameter in body.parameters)
    parameters = ", ".join(["self", *shown])
    source = "\n".join([f"def {name}({parameters}):", *(f"    {line}" for line in lines)])
    return Code(source + "\n", writer.objects, {hidden: helper for helper, hidden in writer.hidden.items()})


@dataclass(slots=True)
class _Pending:
    """An expression that is used once and not written yet."""

    local: int
    text: Text
    modes: Modes
    operands: tuple[int, ...]
    at: int
    named: bool

    @property
    def arithmetic(self) -> bool:
        """Whether the expression is a sum or the like, rather than a call."""
        return self.text.level < ATOM


class Writer:
    """Writes the statements of a body.

    Attributes:
        width: how long a line may be.
    """

    width = 96

    def __init__(self, body: Body) -> None:
        self.body = body
        self.objects: dict[str, Any] = {}
        self.object_names: dict[int, str] = {}
        self.parameter_names = {parameter.name for parameter in body.parameters}
        self.hidden: dict[str, str] = {}
        self.last_use = last_uses(body)
        self.uses = use_counts(body)
        self.names: dict[int, str] = {}
        self.holder: dict[str, int] = {}
        self.variables = set(self.parameter_names)
        self.parameters: set[int] = set()
        self.pending: list[_Pending] = []
        self.inlined: dict[int, Text] = {}
        self.whole: dict[int, tuple[str, int]] = {}
        self.out: list[tuple[Modes, str]] = []
        self.operands: tuple[int, ...] = ()
        self.at = 0

    @property
    def limit(self) -> int:
        """How long an expression may be that has others in it."""
        return self.width - 20

    def helper(self, name: str) -> str:
        """The name of a helper, another one where a parameter has it."""
        if name not in self.parameter_names:
            return name
        if name not in self.hidden:
            self.hidden[name] = self.fresh(f"{name}_")
        return self.hidden[name]

    def lines(self) -> list[str]:
        """The statements."""
        for parameter in self.body.parameters:
            self.holder[parameter.name] = -1
        for parameter in self.body.parameters:
            for local, access in parameter.leaves:
                self.parameters.add(local)
                self.names[local] = self.accessed(parameter.name, access)
                if not access:
                    self.holder[parameter.name] = local
        for at, step in enumerate(self.body.steps):
            self.at = at
            self.step(step)
        self.at = len(self.body.steps)
        self.give(self.body.result)
        return self.with_blocks() or ["pass"]

    def step(self, step: Apply | Invoke) -> None:
        """Writes an operator or a call."""
        if isinstance(step, Apply):
            self.apply(step)
        else:
            self.invoke(step)

    def give(self, result: Any) -> None:
        """Writes what is returned."""
        if result is not None:
            text = self.expression_of((result,), (), lambda: self.show(result), final=True)
            plain = isinstance(result, tuple) and len(result) > 1
            self.statement((), f"return {text.text[1:-1] if plain else text.text}")

    def with_blocks(self) -> list[str]:
        """The statements, those under modes in `with` blocks."""
        lines: list[str] = []
        current: Modes = ()
        for modes, line in self.out:
            if modes != current and modes:
                lines.append(f"with {', '.join(mode_text(mode, self.helper('torch')) for mode in modes)}:")
            current = modes
            lines.append(f"    {line}" if modes else line)
        return lines

    def apply(self, step: Apply) -> None:
        """Writes an operator."""
        text = self.expression_of(
            (step.args, step.kwargs),
            step.modes,
            lambda: spell(step.target, step.args, step.kwargs, self),
            final=not self.uses.get(step.out),
        )
        self.finish(step.out, text, step.modes, named=False)

    def invoke(self, step: Invoke) -> None:
        """Writes a call."""
        waits = len(step.outs) == 1 and not step.flat and self.uses.get(step.outs[0][0])
        text = self.expression_of((step.args, step.kwargs), step.modes, lambda: self.call_text(step), not waits)
        if not step.outs:
            self.statement(step.modes, text.text)
        elif len(step.outs) == 1 and not step.flat:
            local, access = step.outs[0]
            named = bool(step.module.steps) and step.module.steps[-1].how == "attr"
            self.finish(local, Text(self.accessed(text.text, access)), step.modes, named)
        elif step.flat:
            self.unpack(step, text)
        else:
            whole = self.fresh("result")
            self.statement(step.modes, f"{whole} = {text.text}")
            for local, access in step.outs:
                self.assign(local, Text(self.accessed(whole, access)), step.modes, ())
            self.holder.pop(whole, None)

    def unpack(self, step: Invoke, text: Text) -> None:
        """Writes a call whose results get a variable each."""
        places = {access[0].key: local for local, access in step.outs if isinstance(access[0], Item)}
        targets = [self.name(places[at], ()) if at in places else "_" for at in range(step.flat)]
        self.statement(step.modes, f"{', '.join(targets)} = {text.text}")

    def call_text(self, step: Invoke) -> Text:
        """A call as an expression."""
        module = self.held(step.module)
        if step.pick is not None:
            module = f"{self.helper('guess' if step.guessed else 'pick')}({module}, {step.pick})"
        return Text(f"{module}({self.arguments(step.args, step.kwargs)})")

    def expression_of(self, used: Any, modes: Modes, write: Any, final: bool = False) -> Text:
        """Writes an expression, with those pending ones in it that may be evaluated there.

        The ones below them stay pending, unless the expression is `final`: a statement follows.
        """
        order = list(locals_of(used))
        keep = self._inlinable(order, modes)
        below = len(self.pending) - keep
        used_below = [at for at in range(below) if self.pending[at].local in order]
        self.flush(below if final else max(used_below, default=-1) + 1)
        while True:
            chosen = self.pending[len(self.pending) - keep :]
            self.inlined = {pending.local: pending.text for pending in chosen}
            text: Text = write()
            self.inlined = {}
            if not chosen or len(text.text) <= self.limit or text.sliced:
                break
            keep -= self._excess(chosen, len(text.text))
            self.flush(len(self.pending) - keep)
        inner = {pending.local: pending.operands for pending in chosen}
        self.operands = tuple(name for local in order for name in inner.get(local, (local,)))
        del self.pending[len(self.pending) - keep :]
        return text

    def _excess(self, chosen: Sequence[_Pending], length: int) -> int:
        """How many of the pending expressions inside one have to go for it to be short enough."""
        count = 0
        while count < len(chosen) and (count == 0 or length > self.limit):
            length -= len(chosen[count].text.text)
            count += 1
        return count

    def _inlinable(self, order: Sequence[int], modes: Modes) -> int:
        """How many of the last pending expressions may be written inside one that uses `order`."""
        place = {local: at for at, local in enumerate(order)}
        size, limit = 0, len(order)
        for pending in reversed(self.pending):
            at = place.get(pending.local, limit)
            if at >= limit or pending.modes != modes:
                break
            size, limit = size + 1, at
        return size

    def flush(self, count: int) -> None:
        """Writes down the first pending expressions."""
        for _ in range(count):
            pending = self.pending.pop(0)
            dying = [local for local in pending.operands if self.is_dying(local, pending.at, pending.arithmetic)]
            if pending.named:
                dying = [local for local in dying if self.body.names[local] == self.body.names[pending.local]]
            self.assign(pending.local, pending.text, pending.modes, dying)

    def finish(self, local: int, text: Text, modes: Modes, named: bool) -> None:
        """Writes down the value of a local, or keeps it for where it is used."""
        count = self.uses.get(local, 0)
        if count == 0:
            self.statement(modes, text.text)
            return
        pending = _Pending(local, text, modes, self.operands, self.at, named)
        self.pending.append(pending)
        if count > 1 or (len(text.text) > self.width - 30 and not text.sliced):  # an index spells slices out shortly
            self.flush(len(self.pending))
        elif len(self.pending) > _DEPTH:
            self.flush(1)

    def is_dying(self, local: int, at: int, arithmetic: bool) -> bool:
        """Whether a variable is used for the last time; arguments of the caller only give way to sums."""
        return (
            self.last_use.get(local, -1) <= at and local in self.names and (arithmetic or local not in self.parameters)
        )

    def assign(self, local: int, text: Text, modes: Modes, dying: Iterable[int]) -> None:
        """Writes down the value of a local."""
        self.statement(modes, f"{self.name(local, dying)} = {text.text}")
        if text.sliced:
            self.whole[local] = "", text.sliced[1]

    def statement(self, modes: Modes, line: str) -> None:
        """Adds a line."""
        self.out.append((modes, line))

    def name(self, local: int, dying: Iterable[int]) -> str:
        """A name for a new variable: that of one that dies here, or its own."""
        for other in dying:
            name = self.names[other]
            if self.holder.get(name) == other:
                break
        else:
            name = self.fresh(self.body.names[local])
        self.names[local] = name
        self.holder[name] = local
        return name

    def fresh(self, base: str) -> str:
        """A name for a variable that no other has."""
        if not is_plain(base) or base in _TAKEN:
            base = f"{base}_" if is_plain(f"{base}_") else "value"
        name, count = base, 1
        while self.is_taken(name):
            name, count = f"{base}_{count}", count + 1
        self.holder[name] = -2
        self.variables.add(name)
        return name

    def is_taken(self, name: str) -> bool:
        """Whether a name still means something else."""
        if name in self.objects or name in _TAKEN:
            return True
        holder = self.holder.get(name)
        if holder is None:
            return False
        if any(holder in pending.operands for pending in self.pending):
            return True
        return holder < 0 or self.last_use.get(holder, -1) >= self.at or holder in self.parameters

    def show(self, value: Any) -> Text:
        """An argument as Python."""
        if isinstance(value, Local):
            return self.inlined.get(value.index) or Text(self.names[value.index], sliced=self.whole.get(value.index))
        if isinstance(value, Held):
            return Text(self.held(value))
        if isinstance(value, torch.Size):
            return Text(f"{self.helper('torch')}.Size({list(value)})")
        if isinstance(value, tuple):
            inner = ", ".join(self.show(item).text for item in value)
            return Text(f"({inner},)" if len(value) == 1 else f"({inner})")
        if isinstance(value, list):
            return Text(f"[{', '.join(self.show(item).text for item in value)}]")
        if isinstance(value, Mapping):
            return Text("{" + ", ".join(f"{key!r}: {self.show(item).text}" for key, item in value.items()) + "}")
        return self.built(value) if isinstance(value, Rebuilt | Made) else self.constant(value)

    def built(self, value: Rebuilt | Made) -> Text:
        """A container or object that Python has no display for."""
        if isinstance(value, Rebuilt):
            inner = ", ".join(self.show(item).text for item in value.leaves)
            return Text(f"{self.helper('rebuild')}([{inner}], {self.object(value.spec, 'spec')})")
        kind = self.object(value.kind, value.kind.__name__)
        return Text(f"{self.helper('make')}({', '.join([kind, self.arguments((), value.fields)])})")

    def constant(self, value: Any) -> Text:
        """A constant as Python."""
        if isinstance(value, bool | str | bytes | None) or type(value) is int:
            return Text(repr(value))
        if isinstance(value, float):
            return Text(repr(value) if math.isfinite(value) else f"{self.helper('float')}('{value}')")
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return Text(f"{self.helper('torch')}.{str(value).removeprefix('torch.')}")
        if isinstance(value, slice):
            return Text(
                f"{self.helper('slice')}({', '.join(self.show(x).text for x in (value.start, value.stop, value.step))})"
            )
        if isinstance(value, torch.device):
            return Text(f"{self.helper('moved')}(self, {self.object(value, str(value).replace(':', '_'))})")
        if isinstance(value, SubGraph):
            return Text(self.object(value.module, graph_label(value.name)))
        return Text(self.object(value, type(value).__name__.lower()))

    def object(self, value: Any, base: str) -> str:
        """The name of something that has no Python text of its own."""
        key = hash(value) if isinstance(value, torch.device) else id(value)
        if key not in self.object_names:
            taken = {*self.objects, *_TAKEN, *self.body.names, *self.variables}
            self.object_names[key] = name = fresh(base if is_plain(base) else "value", taken)
            self.objects[name] = value
        return self.object_names[key]

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """What is between the parentheses of a call."""
        shown = [self.show(value).text for value in args]
        plain = {key: value for key, value in kwargs.items() if is_plain(key)}
        shown += [f"{key}={self.show(value).text}" for key, value in plain.items()]
        rest = {key: value for key, value in kwargs.items() if key not in plain}
        return ", ".join([*shown, f"**{self.show(rest).text}"] if rest else shown)

    def held(self, held: Held) -> str:
        """A module or state entry as Python."""
        text = f"{self.helper('root')}(self)" if held.from_root else "self"
        for step in held.steps:
            text = self.stepped(text, step)
        return text

    def stepped(self, text: str, step: Step) -> str:
        """One step along a path."""
        if step.how == "attr":
            return f"{text}.{step.name}"
        if step.how == "item":
            return f"{text}[{int(step.name)}]"
        if step.how == "key":
            return f"{text}[{step.name!r}]"
        if step.how == "getattr":
            return f"{self.helper('getattr')}({text}, {step.name!r})"
        return f"{text}.{step.how}[{step.name!r}]"

    def accessed(self, text: str, access: Access) -> str:
        """A leaf of a nested value."""
        if not any(isinstance(step, Leaf) for step in access):
            return reached(text, access, "")
        return reached(text, access, self.helper("leaves"))
