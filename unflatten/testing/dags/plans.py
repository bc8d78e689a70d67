"""What random modules do, as plain values: easily drawn, easily made smaller."""

from __future__ import annotations

from dataclasses import dataclass

WIDTH = 4
"""Every value in a random module has the shape `(batch, WIDTH)`."""

KINDS: dict[str, str] = {
    "subtract": "",
    "weigh": "",
    "scale": "",
    "relu": "",
    "join": "",
    "call": "",
    "call_keyword": "",
    "turn": "views",
    "view": "views",
    "slice": "views",
    "constant": "constants",
    "table": "constants",
    "call_half": "several_calls",
    "call_rows": "several_calls",
    "call_twin": "several_calls",
    "call_factor": "several_calls",
    "call_chosen": "several_calls",
    "call_mask": "optional_arguments",
    "call_inner": "sibling_calls",
    "count": "mutation",
    "write": "mutation",
    "write_view": "mutation",
    "write_slice": "mutation",
    "write_argument": "mutation",
    "assign": "mutation",
    "cache": "mutation",
    "write_child": "mutation",
    "read_child": "mutation",
    "dropout": "dropout",
    "cond": "higher_order",
    "scan": "higher_order",
    "no_grad": "higher_order",
    "call_no_grad": "higher_order",
    "size": "dynamic",
    "parity": "dynamic",
}
"""The kinds of steps, simplest first, and the feature that each belongs to."""

LEAVES: dict[str, str] = {
    "nn.ReLU()": "",
    "nn.Linear(4, 4)": "",
    "nn.Linear(4, 4, bias=False)": "",
    "nn.LayerNorm(4)": "",
    "nn.Sequential(nn.Linear(4, 4), nn.ReLU())": "",
    "nn.Identity()": "",
    "nn.Dropout(0.5)": "dropout",
    "nn.BatchNorm1d(4)": "mutation",
}
"""Modules of `torch.nn` that may be children, and the feature that each belongs to."""

HOLDERS = {
    "plain": "",
    "list": "containers",
    "dict": "containers",
    "hostile": "hostile_names",
    "keyword": "keyword_names",
}
"""How a module holds its children, and the feature that each way belongs to."""

FORMS = ("one", "tuple", "dict")
"""How values nest that a module takes or gives."""


@dataclass(frozen=True)
class Step:
    """One thing that a module does with two of its values.

    Attributes:
        kind: what it does, one of `KINDS`.
        left: which value, counted from the newest.
        right: which other one.
        child: which child it is about, where it is about one.
    """

    kind: str
    left: int = 0
    right: int = 0
    child: int = 0


@dataclass(frozen=True)
class Leaf:
    """A child that is a module of `torch.nn`."""

    code: str


@dataclass(frozen=True)
class Plan:
    """A module: what it does, its children, and how it looks from outside.

    Attributes:
        steps: what it does, in this order.
        children: what it holds; those that no step calls are called first.
        holder: how it holds them, one of `HOLDERS`.
        takes: how its two inputs nest, one of `FORMS`.
        gives: how its results nest, one of `FORMS`.
        shared: whether its first child stands at a second name.
        tied: whether its weight is that of its last child.
        borrows: whether it gets, and calls, the first of its siblings.
        idle: whether its last child is left uncalled where no step calls it.
        drops: whether it returns its newest values only, used or not, and not the sum of all that nothing uses.
        spare: whether it has a parameter and a buffer that it does not use.
        hostile: whether its parameter and its buffer have names that are no identifiers.
        halves: whether it can be told to do half of its steps.
        masked: whether it can be given a mask.
        scaled: whether it can be given a factor.
    """

    steps: tuple[Step, ...] = ()
    children: tuple[Plan | Leaf, ...] = ()
    holder: str = "plain"
    takes: str = "one"
    gives: str = "one"
    shared: bool = False
    tied: bool = False
    borrows: bool = False
    idle: bool = False
    drops: bool = False
    spare: bool = False
    hostile: bool = False
    halves: bool = False
    masked: bool = False
    scaled: bool = False

    @property
    def is_lendable(self) -> bool:
        """Whether a sibling can call it without knowing more of it."""
        return self.takes == "one" == self.gives


@dataclass(frozen=True)
class RootPlan:
    """A model, and how it is captured.

    Attributes:
        plan: the outermost module.
        train: whether it is in train mode.
        dynamic: whether the number of rows may vary.
        keywords: whether the second input is given by keyword.
    """

    plan: Plan
    train: bool = False
    dynamic: bool = False
    keywords: bool = False
