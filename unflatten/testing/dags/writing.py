"""A plan as Python: a class for each kind of module, and what is needed to build and call the model."""

from __future__ import annotations

from dataclasses import dataclass, field

from unflatten.testing.dags.names import Names
from unflatten.testing.dags.plans import WIDTH, Leaf, Plan, RootPlan
from unflatten.testing.dags.steps import Writer

_INPUTS = (
    f"torch.linspace(-1, 2, 3 * {WIDTH}).view(3, {WIDTH})",
    f"torch.linspace(0.5, -1, 3 * {WIDTH}).view(3, {WIDTH})",
)


def write(root: RootPlan) -> str:
    """The source of a model: its classes, `build()`, `args`, `kwargs` and `dynamic_shapes`.

    Example:
        >>> from unflatten.testing.dags.plans import Plan, Step
        >>> print(write(RootPlan(Plan((Step("subtract"),)))))
        import torch
        from torch import nn
        <BLANKLINE>
        <BLANKLINE>
        class Root(nn.Module):
            def forward(self, x, y):
                a = y - y
                return a + x
        <BLANKLINE>
        <BLANKLINE>
        def build():
            torch.manual_seed(0)
            return Root().eval()
        <BLANKLINE>
        <BLANKLINE>
        args = (torch.linspace(-1, 2, 3 * 4).view(3, 4), torch.linspace(0.5, -1, 3 * 4).view(3, 4))
        kwargs = {}
        dynamic_shapes = None
        <BLANKLINE>
    """
    classes = _Classes()
    name = classes.name_of(root.plan, "Root")
    build = f"def build():\n    torch.manual_seed(0)\n    return {name}().{'train' if root.train else 'eval'}()"
    source = "\n\n\n".join([*classes.written, build, _call(root)]) + "\n"
    scan = "\nfrom torch._higher_order_ops import scan" if "= scan(" in source else ""
    return f"import torch\nfrom torch import nn{scan}\n\n\n{source}"


def _call(root: RootPlan) -> str:
    x, y = _INPUTS
    rows = "{0: torch.export.Dim.AUTO}"
    if root.plan.takes == "tuple":
        args, kwargs, shapes = f"(({x}, {y}),)", "{}", f'{{"pair": ({rows}, {rows})}}'
    elif root.plan.takes == "dict":
        args, kwargs, shapes = f'({{"x": {x}, "y": {y}}},)', "{}", f'{{"inputs": {{"x": {rows}, "y": {rows}}}}}'
    elif root.keywords:
        args, kwargs, shapes = f"({x},)", f'{{"y": {y}}}', f'{{"x": {rows}, "y": {rows}}}'
    else:
        args, kwargs, shapes = f"({x}, {y})", "{}", f'{{"x": {rows}, "y": {rows}}}'
    return f"args = {args}\nkwargs = {kwargs}\ndynamic_shapes = {shapes if root.dynamic else None}"


@dataclass
class _Classes:
    """The classes that are written so far; equal plans share one."""

    names: dict[Plan, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)

    def name_of(self, plan: Plan, name: str = "") -> str:
        """The name of a plan's class, which is written where that has not been done."""
        if plan not in self.names:
            children = [
                child.code if isinstance(child, Leaf) else f"{self.name_of(child)}()" for child in plan.children
            ]
            self.names[plan] = name or f"Module{len(self.names)}"
            self.written.append(_class(self.names[plan], plan, children))
        return self.names[plan]


def _class(name: str, plan: Plan, children: list[str]) -> str:
    made = Names(plan).constructor(children)
    lent = ", lent=None" if plan.borrows else ""
    if lent:
        made.append("self.lent = lent")
    init = [f"    def __init__(self{lent}):", "        super().__init__()", *(f"        {line}" for line in made), ""]
    options = {"half=False": plan.halves, "mask=None": plan.masked, "factor=1.0": plan.scaled}
    taken = {"one": "x, y", "tuple": "pair", "dict": "inputs"}[plan.takes]
    parameters = ", ".join([taken, *(option for option, there in options.items() if there)])
    forward = [f"    def forward(self, {parameters}):", *(f"        {line}" for line in Writer(plan).body())]
    return "\n".join([f"class {name}(nn.Module):", *(init if made else ()), *forward])
