"""Random trees of modules, as Hypothesis strategies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn

WIDTH = 4
KINDS = ("weigh", "scale", "count", "relu", "view", "join", "random", "write", "constant", "call")


@dataclass(frozen=True)
class Step:
    """One thing that a module does with two of its values.

    Attributes:
        kind: what it does, one of `KINDS`.
        left: which value, counted from the newest.
        right: which other one.
        child: which child is called, where one is.
        flag: whether the child is told to do half of its steps only.
    """

    kind: str
    left: int
    right: int
    child: int
    flag: bool


@dataclass(frozen=True)
class Plan:
    """A module: what it does, and the plans of its children; a child may stand at several names."""

    steps: tuple[Step, ...]
    children: tuple[Plan, ...]
    pair: bool
    again: bool


class Generated(nn.Module):
    """A module made after a plan. All values have the shape `(batch, WIDTH)`."""

    count: torch.Tensor
    scale: torch.Tensor

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.steps, self.pair = plan.steps, plan.pair
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.register_buffer("scale", torch.rand(WIDTH))
        self.register_buffer("count", torch.ones(()))
        self.child = nn.ModuleList([Generated(child) for child in plan.children])
        if plan.again and plan.children:
            self.other = self.child[0]
            last: Any = self.child[-1]
            self.weight = last.weight

    def forward(self, x: torch.Tensor, y: torch.Tensor, half: bool = False) -> torch.Tensor:
        """The last value, or the sum of the last two."""
        values = [x, y]
        for step in self.steps[: len(self.steps) // 2] if half else self.steps:
            left, right = (values[-1 - at % len(values)] for at in (step.left, step.right))
            values.append(self.step(step, left, right))
        return values[-1] + values[-2] if self.pair else values[-1]

    def step(self, step: Step, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """One value more."""
        if step.kind == "call" and len(self.child):
            child = (
                self.other
                if step.child % 4 == 3 and hasattr(self, "other")
                else self.child[step.child % len(self.child)]
            )
            out: torch.Tensor = child(left, right, half=True) if step.flag else child(left, right)
            return out
        return self.operator(step.kind, left, right)

    def operator(self, kind: str, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """What is no call."""
        if kind == "count":
            self.count += 1
            return left / self.count
        if kind == "write":
            return (left * 1).add_(right.mean())
        made = {
            "weigh": lambda: left @ self.weight,
            "scale": lambda: left * self.scale + right,
            "relu": lambda: torch.relu(left),
            "view": lambda: left.t().reshape(WIDTH, -1).t(),
            "join": lambda: torch.cat([left, right], 1)[:, 1 : WIDTH + 1],
            "random": lambda: nn.functional.dropout(left, 0.5, self.training),
            "constant": lambda: left + torch.arange(WIDTH),
        }
        return made.get(kind, lambda: left - right)()


small = st.integers(0, 3)
steps = st.lists(st.builds(Step, st.sampled_from(KINDS), small, small, small, st.booleans()), min_size=1, max_size=6)


def plans_over(children: st.SearchStrategy[tuple[Plan, ...]]) -> st.SearchStrategy[Plan]:
    """Plans of modules with such children."""
    return st.builds(Plan, steps.map(tuple), children, st.booleans(), st.booleans())


def several(plans: st.SearchStrategy[Plan]) -> st.SearchStrategy[tuple[Plan, ...]]:
    """Up to three of them."""
    return st.lists(plans, max_size=3).map(tuple)


leaves = plans_over(st.just(()))
plans = plans_over(several(plans_over(several(leaves))))


def calling(plan: Plan) -> Plan:
    """A plan that also calls each child, some of them twice and in two ways."""
    calls = [
        Step("call", left, right, child, flag)
        for child in range(len(plan.children))
        for left, right, flag in [(0, 1, False), (1, 2, True)][: 1 + (len(plan.steps) + child) % 2]
    ]
    return replace(plan, steps=(*calls, *plan.steps), children=tuple(map(calling, plan.children)))


calling_plans = plans.map(calling)
