"""What a module's children, parameters and buffers are called, and how code refers to them."""

from __future__ import annotations

import keyword
from dataclasses import dataclass

from unflatten.testing.dags.plans import Leaf, Plan

_NAMES = {
    "plain": ("inner0", "inner1", "inner2", "inner3"),
    "list": ("0", "1", "2", "3"),
    "dict": ("1x1", "a_b", "self", "code"),
    "hostile": ("a@1", "forward_0", "1x1", "self"),
    "keyword": ("for", "graph", "class", "code"),
}
STATE = {"weigh": "weight", "scale": "scale", "count": "count", "assign": "memory", "cache": "cache", "table": "table"}
"""The parameter, buffer or constant that a kind of step uses."""


@dataclass(frozen=True)
class Names:
    """The names in one module."""

    plan: Plan

    @property
    def state(self) -> list[str]:
        """The parameters, buffers and constants that the module has."""
        used = {STATE[step.kind] for step in self.plan.steps if step.kind in STATE}
        return [name for name in dict.fromkeys(STATE.values()) if name in used]

    def own(self, name: str) -> str:
        """What a parameter or buffer is really called."""
        return {"weight": "1st", "scale": "a@b"}.get(name, name) if self.plan.hostile else name

    def refer(self, name: str, base: str = "self") -> str:
        """Code for a parameter, buffer or constant."""
        return _attribute(base, self.own(name))

    def child(self, at: int, base: str = "self") -> str:
        """Code for a child; the number after the last is the second name of the first."""
        if at == len(self.plan.children):
            return f"{base}.again"
        if self.plan.holder in ("list", "dict"):
            return f"{base}.layers[{at if self.plan.holder == 'list' else repr(self.child_name(at))}]"
        return _attribute(base, self.child_name(at))

    def child_name(self, at: int) -> str:
        """The name that a child, or the last part of the path to it, has."""
        return _NAMES[self.plan.holder][at]

    def constructor(self, children: list[str]) -> list[str]:
        """What `__init__` does after `super().__init__()`."""
        lines = self._children(children)
        for name in self.state:
            lines.append(self._make(name))
        last = self.plan.children[-1] if self.plan.children else None
        if self.plan.tied and "weight" in self.state and isinstance(last, Plan) and "weight" in Names(last).state:
            theirs = Names(last).refer("weight", self.child(len(self.plan.children) - 1))
            lines.append(f"self.register_parameter({self.own('weight')!r}, {theirs})")
        if self.plan.spare:
            lines += ["self.spare = nn.Parameter(torch.randn(2))", 'self.register_buffer("rest", torch.ones(3))']
        return lines

    def _children(self, made: list[str]) -> list[str]:
        """Code that holds the children."""
        lines: list[str] = []
        if self.lender(self.plan) and any(isinstance(c, Plan) and c.borrows for c in self.plan.children[1:]):
            lines.append(f"first = {made[0]}")
            made = ["first", *(self._lent(at, code) for at, code in enumerate(made) if at)]
        if self.plan.holder == "list" and made:
            lines.append(f"self.layers = nn.ModuleList([{', '.join(made)}])")
        elif self.plan.holder == "dict" and made:
            pairs = ", ".join(f"{self.child_name(at)!r}: {code}" for at, code in enumerate(made))
            lines.append(f"self.layers = nn.ModuleDict({{{pairs}}})")
        elif self.plan.holder in ("hostile", "keyword"):
            lines += [f"self.add_module({self.child_name(at)!r}, {code})" for at, code in enumerate(made)]
        else:
            lines += [f"self.inner{at} = {code}" for at, code in enumerate(made)]
        if self.plan.shared and made:
            lines.append(f"self.again = {self.child(0)}")
        return lines

    def _lent(self, at: int, code: str) -> str:
        child = self.plan.children[at]
        return f"{code[:-1]}first)" if isinstance(child, Plan) and child.borrows else code

    @staticmethod
    def lender(plan: Plan) -> bool:
        """Whether a module's first child can be lent to the others."""
        first = plan.children[0] if plan.children else Leaf("")
        return isinstance(first, Plan) and first.is_lendable

    def _make(self, name: str) -> str:
        own = self.own(name)
        return {
            "weight": f"self.register_parameter({own!r}, nn.Parameter(torch.randn(4, 4)))"
            if own != name
            else "self.weight = nn.Parameter(torch.randn(4, 4))",
            "scale": f"self.register_buffer({own!r}, torch.rand(4))",
            "count": 'self.register_buffer("count", torch.ones(()))',
            "memory": 'self.register_buffer("memory", torch.zeros(4))',
            "cache": 'self.register_buffer("cache", torch.ones(4), persistent=False)',
            "table": "self.table = torch.arange(4.0)",
        }[name]


def _attribute(base: str, name: str) -> str:
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return f"{base}.{name}" if plain else f"getattr({base}, {name!r})"
