"""Working copies of the calls in a program, from which the frozen tree of regions is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from unflatten.flat.values import FlatNode, Value
from unflatten.grouping.naming import natural
from unflatten.paths import ROOT, ModuleCall, ModulePath, Scope
from unflatten.signatures import Form


@dataclass(eq=False, slots=True)
class Draft:
    """One call, while the tree is being made.

    Attributes:
        call: the call, None for the root's.
        parent: the call around it.
        depth: how many calls are around it.
        piece: which piece of the call this is, where it had to be cut.
        cut: why it had to be cut, empty where it is whole.
        form: how the call is written, where that is known.
        nodes: the operators that belong to it and to no call inside it.
        children: the calls inside it.
        inputs: what it uses from outside: values, and numbers that it can't compute itself.
        outputs: what is used of it outside.
        visible: what calls inside it hand out, with the one that does.
        scalars: the floating numbers that its operators use.
        edges: what must come before what, among its operators and the calls inside it.
        effects: the ones of `edges` that are there for effects, by what must come later.
    """

    call: ModuleCall | None
    parent: Draft | None
    depth: int
    piece: int = 0
    cut: str = ""
    form: Form | None = None
    nodes: list[FlatNode] = field(default_factory=list)
    children: list[Draft] = field(default_factory=list)
    inputs: dict[Value, None] = field(default_factory=dict)
    outputs: dict[FlatNode, None] = field(default_factory=dict)
    visible: dict[FlatNode, Draft] = field(default_factory=dict)
    scalars: dict[FlatNode, None] = field(default_factory=dict)
    edges: dict[tuple[Item, Item], None] = field(default_factory=dict)
    effects: dict[Item, list[Item]] = field(default_factory=dict)

    @property
    def path(self) -> ModulePath:
        """The module that is called."""
        return self.call.path if self.call else ROOT

    def __repr__(self) -> str:
        return f"<{self.call or 'root'}{f' piece {self.piece}' if self.piece else ''}>"

    def encloses(self, inner: Draft) -> bool:
        """Whether another draft is this one or inside it."""
        while inner.depth > self.depth and inner.parent is not None:
            inner = inner.parent
        return inner is self

    def forget(self) -> None:
        """Drops what `unflatten.crossing` finds, before it is found again."""
        for found in (self.inputs, self.outputs, self.visible, self.scalars, self.edges, self.effects):
            found.clear()


@dataclass(frozen=True, eq=False, slots=True)
class Tree:
    """The drafts of a program, made as they are asked for.

    Attributes:
        root: the draft of the whole program.
        forms: how calls are written, where that is known.
    """

    root: Draft
    forms: Mapping[ModuleCall, Form]
    _made: dict[tuple[Draft, ModuleCall], Draft] = field(default_factory=dict)

    def at(self, scope: Scope) -> Draft:
        """The draft of the innermost of some calls."""
        draft = self.root
        for call in scope:
            inner = self._made.get((draft, call))
            if inner is None:
                inner = Draft(call, draft, draft.depth + 1, form=self.forms.get(call))
                self._made[draft, call] = inner
                draft.children.append(inner)
            draft = inner
        return draft

    def calls(self) -> set[ModuleCall]:
        """The calls that have a draft."""
        return {call for _, call in self._made}


Item = FlatNode | Draft


def all_nodes(draft: Draft) -> Iterator[FlatNode]:
    """The operators of a call and of those inside it."""
    stack = [draft]
    while stack:
        inner = stack.pop()
        yield from inner.nodes
        stack.extend(inner.children)


def item_key(item: Item) -> tuple[int, str, int, str, int]:
    """A sort key for items that says nothing of positions; no two items of one call have the same."""
    if isinstance(item, FlatNode):
        return 0, *natural(item.name), 0
    if item.call is None:
        return 1, "", 0, "", item.piece
    return 1, str(item.path), item.call.index, item.call.via, item.piece
