"""Grouping operators into calls, and what a call sees of the values around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from unflatten.effects import Effects
from unflatten.flat.values import FlatInput, FlatNode, FlatProgram, Source, Value
from unflatten.grouping.drafts import Draft, Item, Tree
from unflatten.grouping.shapes import floating_nodes
from unflatten.ownership import Ownership
from unflatten.paths import ModuleCall, Scope
from unflatten.signatures import Form
from unflatten.state import StatePlan


@dataclass(eq=False, slots=True)
class Grouping:
    """The drafts of a program, and the rules by which values reach them.

    Attributes:
        program, effects, state: what is grouped.
        root: the draft of the whole program.
        owner: the draft of each operator, None for one that floats.
        idle: calls that are known although they have no operator, beside the tree.
        unused: the results of calls that return something which nothing uses.
        handed_back: values that a call would hand out although they are what it was given.
        patient: whether calls wait for writes to what they are given and don't look at; not where passes forbid it.
    """

    program: FlatProgram
    effects: Effects
    state: StatePlan
    root: Draft
    owner: list[Draft | None]
    idle: list[Draft] = field(default_factory=list)
    unused: dict[Draft, FlatNode] = field(default_factory=dict)
    handed_back: set[tuple[Draft, FlatNode]] = field(default_factory=set)
    patient: bool = True

    @staticmethod
    def of(
        program: FlatProgram,
        ownership: Ownership,
        effects: Effects,
        state: StatePlan,
        root: Form,
        forms: Mapping[ModuleCall, Form],
        around: Mapping[ModuleCall, Scope],
    ) -> Grouping:
        """Groups the operators of a program by their owners.

        Args:
            program: the program.
            ownership: the owners of its operators.
            effects: what must come before what.
            state: where its state lives.
            root: how the program itself is called.
            forms: how calls inside it are written, where that is known.
            around: the calls around a call, where that is recorded.
        """
        floating = floating_nodes(program.nodes)
        tree = Tree(Draft(None, None, 0, form=root), forms)
        owner: list[Draft | None] = []
        for node, scope in zip(program.nodes, ownership.scopes, strict=True):
            draft = None if node in floating else tree.at(scope)
            owner.append(draft)
            if draft is not None:
                draft.nodes.append(node)
        grouping = Grouping(program, effects, state, tree.root, owner)
        found = tree.calls()
        for call, form in forms.items():
            idle = Draft(call, tree.root, 1, form=form)
            if call not in found and grouping.is_self_contained(idle):
                if call in around:
                    tree.at((*around[call], call))
                else:
                    grouping.idle.append(idle)
        return grouping

    def is_self_contained(self, draft: Draft) -> bool:
        """Whether what a call without operators returns is among its arguments or its state."""
        if draft.form is None:
            return False
        given = set(draft.form.values())
        returned = (leaf for leaf in draft.form.results if isinstance(leaf, FlatNode | FlatInput))
        return all(
            leaf in given or self.floats(leaf) or (isinstance(leaf, FlatInput) and leaf.fqn and self.owns(draft, leaf))
            for leaf in returned
        )

    def drafts(self) -> Iterator[Draft]:
        """Every draft, each before the ones inside it."""
        stack = [self.root]
        while stack:
            draft = stack.pop()
            yield draft
            stack.extend(reversed(draft.children))

    def owner_of(self, node: FlatNode) -> Draft:
        """The draft of an operator that doesn't float."""
        draft = self.owner[node.index]
        return draft if draft is not None else self.root

    def floats(self, value: Value) -> bool:
        """Whether a value is a number that every call computes for itself."""
        return isinstance(value, FlatNode) and self.owner[value.index] is None

    def operand(self, node: FlatNode, value: Value, draft: Draft) -> Value:
        """What an operator uses for one of its operands."""
        return self.resolve(self.program.replaced.get((node, value), value), draft)

    def resolve(self, value: Value, draft: Draft) -> Value:
        """The value that a draft uses where the graph has another name for the same object.

        What `x.add_(1)` returns is `x`. The call that runs it and calls inside of that one just use `x`, as do
        modules that hold `x` themselves, and calls that could have it without that call's help.
        """
        while isinstance(value, FlatNode):
            base = self.effects.same.get(value)
            if base is not None and self._uses_base(value, base, draft):
                value = base
            elif (base is not None or value in self.effects.unchanged) and self._is_handed_back(value, draft):
                value = base if base is not None else self.effects.unchanged[value]
            else:
                break
        return value

    def _uses_base(self, value: FlatNode, base: Value, draft: Draft) -> bool:
        if isinstance(base, FlatInput) and base.fqn and draft.parent is not None and self.owns(draft, base):
            return True
        return self.owner_of(value).encloses(draft)

    def _is_handed_back(self, value: FlatNode, draft: Draft) -> bool:
        inner = self.owner[value.index]
        while inner is not None and not inner.encloses(draft):
            if (inner, value) in self.handed_back:
                return True
            inner = inner.parent
        return False

    def within(self, node: FlatNode, draft: Draft) -> bool:
        """Whether an operator lies in a call or in one inside it."""
        inner = self.owner[node.index]
        return inner is not None and draft.encloses(inner)

    def owns(self, draft: Draft, value: FlatInput) -> bool:
        """Whether the called module, or one inside it, holds a state entry."""
        if draft.parent is None or value in self.state.literals:
            return True
        return any(owner.is_within(draft.path) for owner, _ in self.state.names[value])

    def has(self, draft: Draft, value: Value) -> bool:
        """Whether a draft can use a value as it is: it computes it, is handed it, or holds it."""
        if value in draft.inputs:
            return True
        if isinstance(value, FlatInput):
            return draft.parent is None if value.source is Source.USER else self.owns(draft, value)
        return self.owner[value.index] is draft or value in draft.visible

    def item_of(self, value: Value, draft: Draft) -> Item | None:
        """Which of a draft's items computes a value; None for what comes from outside or is held."""
        if isinstance(value, FlatInput) or value in draft.inputs:
            return None
        return value if self.owner[value.index] is draft else draft.visible.get(value)
