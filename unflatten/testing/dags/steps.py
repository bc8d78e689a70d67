"""The steps of a plan as the body of `forward`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from unflatten.testing.dags.names import Names
from unflatten.testing.dags.plans import Leaf, Plan, Step

CALLS = ("call", "call_keyword", "call_half", "call_rows", "call_twin", "call_factor", "call_mask", "call_no_grad")


@dataclass
class Writer:
    """Writes the body of one module's `forward`.

    Attributes:
        plan: the module.
        lines: what is written so far.
        values: the values that there are, newest last.
        count: how many names were given.
    """

    plan: Plan
    lines: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=lambda: ["x", "y"])
    count: int = 0

    @property
    def names(self) -> Names:
        """The names in the module."""
        return Names(self.plan)

    def body(self) -> list[str]:
        """All of it."""
        if self.plan.takes != "one":
            self.lines.append({"tuple": "x, y = pair", "dict": 'x, y = inputs["x"], inputs["y"]'}[self.plan.takes])
        if self.plan.masked:
            self.lines += ["if mask is not None:", "    x = x * mask"]
        if self.plan.scaled:
            self.lines += ["if factor != 1.0:", "    y = y * factor"]
        if self.plan.borrows:
            self.lines += ["if self.lent is not None:", "    y = self.lent(x, y)"]
        steps = [*self.missing_calls(), *self.plan.steps]
        for at, step in enumerate(steps):
            if self.plan.halves and at == (len(steps) + 1) // 2:
                self.lines += ["if half:", f"    return {self.result()}"]
            self.step(step)
        self.lines.append(f"return {self.result()}")
        return self.lines

    def missing_calls(self) -> Iterator[Step]:
        """Calls of the children that no step calls."""
        total = len(self.plan.children)
        called = {self.number(step) % total for step in self.plan.steps if step.kind in CALLS} if total else set()
        for at in range(total - self.plan.idle):
            if at not in called:
                yield Step("call", 0, 1, at)

    def number(self, step: Step) -> int:
        """Which child a step is about; the number after the last is the second name of the first."""
        return step.child % (len(self.plan.children) + self.plan.shared)

    def result(self) -> str:
        """What the module returns."""
        last, other = self.values[-1], self.values[-2]
        unused = [] if self.plan.drops else [value for value in reversed(self.values) if not self.is_used(value)]
        if unused and self.plan.gives == "one":
            return " + ".join(unused)
        if unused:
            last, other = unused[0], " + ".join(unused[1:]) or other
        return {"one": last, "tuple": f"{last}, {other}", "dict": f'{{"x": {last}, "y": {other}}}'}[self.plan.gives]

    def is_used(self, value: str) -> bool:
        """Whether something is computed from a value."""
        read = (line.partition(" = ")[2] or line.partition("(")[2] for line in self.lines)
        return any(re.search(rf"\b{value}\b", text) for text in read)

    def new(self) -> str:
        """A name for the next value."""
        at, self.count = self.count, self.count + 1
        return "abcdefghijklmnopqrstuvw"[at] if at < 23 else f"v{at}"

    def say(self, expression: str) -> None:
        """A value more."""
        name = self.new()
        self.lines.append(f"{name} = {expression}")
        self.values.append(name)

    def step(self, step: Step) -> None:
        """Writes a step; one about a child that is not there subtracts."""
        left, right = (self.values[-1 - at % len(self.values)] for at in (step.left, step.right))
        if step.kind in CALLS and self.plan.children:
            self.call(step, left, right)
        elif step.kind in ("call_inner", "call_chosen", "write_child", "read_child") and self.plan.children:
            self.about_child(step, left, right)
        elif step.kind in _WRITES:
            self.write(step.kind, left, right)
        else:
            self.say(self.operator(step.kind).format(left=left, right=right))

    def operator(self, kind: str) -> str:
        """What is no call and no write."""
        refer = self.names.refer
        return {
            "weigh": f"{{left}} @ {refer('weight')}",
            "scale": f"{{left}} * {refer('scale')} + {{right}}",
            "relu": "torch.relu({left})",
            "join": "torch.cat([{left}, {right}], 1)[:, 1:5]",
            "turn": "{left}.t().reshape(4, -1).t()",
            "view": "{left}.view(-1, 4)",
            "slice": "{left}[:, 2:].repeat(1, 2)",
            "constant": "{left} + torch.arange(4)",
            "table": "{left} * self.table",
            "dropout": "nn.functional.dropout({left}, 0.5, self.training)",
            "cond": "torch.cond({left}.sum() > 0, lambda u, v: u + v, lambda u, v: u * v, ({left}, {right}.clone()))",
            "scan": "scan(lambda u, v: (u + v, u * v), {left}[0], {right})[1]",
            "size": "{left} * {left}.shape[0] + {right}.new_ones({right}.shape[0], 1)",
            "parity": "{left} * 2 if {left}.shape[0] % 2 else {left} + {right}",
        }.get(kind, "{left} - {right}")

    def write(self, kind: str, left: str, right: str) -> None:
        """A step that writes, or computes without gradients."""
        name = self.new()
        lines = [line.format(name=name, left=left, right=right) for line in _WRITES[kind]]
        self.lines += lines
        if kind == "write_argument":
            self.count -= 1
        else:
            self.values.append(name)

    def call(self, step: Step, left: str, right: str) -> None:
        """Calls a child."""
        at = self.number(step)
        child = self.plan.children[at % len(self.plan.children)]
        code = self.names.child(at)
        if step.kind == "call_rows":
            self.say(f"{left}[:2] * 1")
            rows = self.values.pop()
            self.lines.append(f"{rows} = {self.one(child, code, rows, f'{right}[:2]')}")
            self.say(f"{left} + {rows}[:1]")
            return
        if step.kind == "call_no_grad":
            name = self.new()
            self.lines += ["with torch.no_grad():", f"    {name} = {self.one(child, code, left, right)}"]
            self.values.append(name)
            return
        self.unpack(
            child,
            self.called(child, code, left, left if step.kind == "call_twin" else right, step.kind, 2.0 + step.left),
        )

    def unpack(self, child: Plan | Leaf, called: str) -> None:
        """Names what a call gives."""
        if isinstance(child, Leaf) or child.gives == "one":
            self.say(called)
        elif child.gives == "tuple":
            one, two = self.new(), self.new()
            self.lines.append(f"{one}, {two} = {called}")
            self.values += [two, one]
        else:
            name, one, two = self.new(), self.new(), self.new()
            self.lines += [f"{name} = {called}", f'{one}, {two} = {name}["x"], {name}["y"]']
            self.values += [two, one]

    def one(self, child: Plan | Leaf, code: str, left: str, right: str) -> str:
        """A call of which one result is used."""
        gives = "one" if isinstance(child, Leaf) else child.gives
        return self.called(child, code, left, right) + {"one": "", "tuple": "[1]", "dict": '["x"]'}[gives]

    def called(
        self, child: Plan | Leaf, code: str, left: str, right: str, kind: str = "call", factor: float = 2.0
    ) -> str:
        """The expression of a call."""
        if isinstance(child, Leaf):
            return f"{code}({left})"
        given = {
            "one": f"{left}, {'y=' if kind == 'call_keyword' else ''}{right}",
            "tuple": f"({left}, {right})",
            "dict": f'{{"x": {left}, "y": {right}}}',
        }[child.takes]
        if kind == "call_half" and child.halves:
            given += ", half=True"
        if kind == "call_mask" and child.masked:
            given += f", mask={right} > 0"
        if kind == "call_factor" and child.scaled:
            given += f", factor={factor}"
        return f"{code}({given})"

    def about_child(self, step: Step, left: str, right: str) -> None:
        """What reaches into a child, or chooses among children."""
        at = self.number(step) % len(self.plan.children)
        child, code = self.plan.children[at], self.names.child(at)
        if step.kind == "call_chosen" and self.plan.halves:
            other = (at + 1) % len(self.plan.children)
            one, two = (self.one(self.plan.children[to], self.names.child(to), left, right) for to in (at, other))
            self.say(f"{one} if half else {two}")
        elif step.kind == "call_inner" and isinstance(child, Plan) and child.children:
            inner = step.right % len(child.children)
            self.unpack(
                child.children[inner], self.called(child.children[inner], Names(child).child(inner, code), left, right)
            )
        elif step.kind in ("write_child", "read_child") and isinstance(child, Plan) and "count" in Names(child).state:
            if step.kind == "write_child":
                self.lines.append(f"{code}.count.add_(1)")
            else:
                self.say(f"{left} * {code}.count")
        else:
            self.say(f"{left} - {right}")


_WRITES: dict[str, tuple[str, ...]] = {
    "count": ("self.count += 1", "{name} = {left} / self.count"),
    "write": ("{name} = {left} * 1", "{name}.add_({right}.mean())"),
    "write_view": ("{name} = {left} + 1", "{name}.view(-1).mul_(2.0)"),
    "write_slice": ("{name} = {left}.clone()", "{name}[:, :2].add_({right}[:, 2:])"),
    "write_argument": ("{left}.mul_(0.5)",),
    "assign": ("self.memory.copy_({left}.detach().mean(0))", "{name} = {right} + self.memory"),
    "cache": ("{name} = {left} * self.cache", "self.cache.mul_(0.5)"),
    "no_grad": ("with torch.no_grad():", "    {name} = {left} * {right}"),
}
