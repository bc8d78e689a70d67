"""Drafting the tree of calls: which operators lie in which call, and what crosses its boundary.

A `Draft` is one call, or one piece of a call that had to be cut. Drafts are the working copy from which
the frozen tree of `unflatten.regions` is made once every call can be separated from the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from unflatten.effects import Effects
from unflatten.flat import FlatInput, FlatNode, FlatProgram, Source, Value
from unflatten.ownership import Ownership
from unflatten.paths import ROOT, ModuleCall, ModulePath
from unflatten.shapes import floating_nodes, is_size, size_expression, sizes
from unflatten.signatures import Form
from unflatten.state import StatePlan


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

    def forget(self) -> None:
        """Drops what `Grouping.connect` finds, before it is found again."""
        for found in (self.inputs, self.outputs, self.visible, self.scalars, self.edges, self.effects):
            found.clear()


Item = FlatNode | Draft


@dataclass(eq=False, slots=True)
class Grouping:
    """The drafts of a program, and the rules by which values reach them.

    Attributes:
        root: the draft of the whole program.
        owner: the draft of each operator, None for one that floats.
        idle: calls that are known although they have no operator, beside the tree.
        handed_back: values that a call would hand out although they are what it was given.
    """

    program: FlatProgram
    effects: Effects
    state: StatePlan
    root: Draft
    owner: list[Draft | None]
    idle: list[Draft] = field(default_factory=list)
    handed_back: set[tuple[Draft, FlatNode]] = field(default_factory=set)

    @staticmethod
    def of(
        program: FlatProgram,
        ownership: Ownership,
        effects: Effects,
        state: StatePlan,
        root: Form,
        forms: dict[ModuleCall, Form],
    ) -> Grouping:
        """Groups the operators by their owners."""
        floating = floating_nodes(program.nodes)
        top = Draft(None, None, 0, form=root)
        drafts: dict[tuple[int, ModuleCall], Draft] = {}
        owner: list[Draft | None] = []
        for node, scope in zip(program.nodes, ownership.scopes, strict=True):
            if node in floating:
                owner.append(None)
                continue
            draft = top
            for call in scope:
                key = (id(draft), call)
                inner = drafts.get(key)
                if inner is None:
                    inner = drafts[key] = Draft(call, draft, draft.depth + 1, form=forms.get(call))
                    draft.children.append(inner)
                draft = inner
            draft.nodes.append(node)
            owner.append(draft)
        found = {draft.call for draft in drafts.values()}
        idle = [Draft(call, top, 1, form=form) for call, form in forms.items() if call not in found]
        grouping = Grouping(program, effects, state, top, owner)
        grouping.idle = [draft for draft in idle if grouping.is_self_contained(draft)]
        return grouping

    def is_self_contained(self, draft: Draft) -> bool:
        """Whether what a call without operators returns is among its arguments or its state."""
        if draft.form is None:
            return False
        given = set(draft.form.values())
        returned = (leaf for leaf in draft.form.results if isinstance(leaf, FlatNode | FlatInput))
        return all(
            leaf in given or (isinstance(leaf, FlatInput) and leaf.fqn and self.owns(draft, leaf)) for leaf in returned
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
        return self._encloses(self.owner_of(value), draft)

    def _is_handed_back(self, value: FlatNode, draft: Draft) -> bool:
        inner = self.owner[value.index]
        while inner is not None and not self._encloses(inner, draft):
            if (inner, value) in self.handed_back:
                return True
            inner = inner.parent
        return False

    def connect(self) -> None:
        """Finds what crosses each boundary, anew. Linear in the number of crossings.

        A call that hands out what it computes and, beside that, a value that it was given, is taken not to
        return the latter: others have it from where it was computed.
        """
        self._connect()
        found = {
            (draft, value)
            for draft in self.drafts()
            if draft.form is None and draft.parent is not None and len(draft.outputs) > 1
            for value in self._given(draft)
        }
        if not found <= self.handed_back:
            self.handed_back |= found
            self._connect()

    def _given(self, draft: Draft) -> list[FlatNode]:
        """The outputs of a draft that are what it was given, unless all of them are."""
        same, unchanged = self.effects.same, self.effects.unchanged
        given = []
        for value in draft.outputs:
            operand: Value | None = value
            while isinstance(operand, FlatNode) and self._within(operand, draft):
                operand = same.get(operand) or unchanged.get(operand)
            if operand is not None:
                given.append(value)
        return given if len(given) < len(draft.outputs) else []

    def _connect(self) -> None:
        for draft in self.drafts():
            draft.forget()
        for draft in list(self.drafts()):
            if draft is not self.root and draft.form is not None:
                self._declare(draft, draft.form)
        for node in self.program.nodes:
            draft = self.owner[node.index]
            if draft is not None:
                for value in node.operands:
                    self._use(self.operand(node, value, draft), draft, node)
                for earlier in self.effects.before.get(node.index, ()):
                    self._order(self.program.nodes[earlier], node)
        for value in self.root.form.results if self.root.form else ():
            if isinstance(value, FlatNode | FlatInput):
                self._use(self.resolve(value, self.root), self.root, None)
        for draft in reversed(list(self.drafts())):
            for scalar in list(draft.scalars):
                self._provide(scalar, draft)
        self._order_scalars()

    def _order_scalars(self) -> None:
        for node in self.program.nodes:
            draft = self.owner[node.index]
            if draft is not None and draft.scalars:
                self._need(node, node.operands, draft)
        for draft in self.drafts():
            if draft.parent is not None and draft.parent.scalars:
                self._need(draft, draft.inputs, draft.parent)

    def _need(self, item: Item, values: Iterable[Value], draft: Draft) -> None:
        for value in values:
            if isinstance(value, FlatNode) and self.floats(value):
                for earlier in self.scalar_needs(value, draft):
                    draft.edges[earlier, item] = None

    def _declare(self, draft: Draft, form: Form) -> None:
        """A known form asks for its arguments and offers its results, used or not."""
        leaves = [self.resolve(leaf, draft) for leaf in form.values()]
        results = [self.resolve(leaf, draft) for leaf in form.results if isinstance(leaf, FlatNode | FlatInput)]
        if any(isinstance(leaf, FlatNode) and self._within(leaf, draft) for leaf in leaves):
            draft.form = None  # a pass moved what was computed outside into the call
            return
        for leaf in leaves:
            if leaf not in draft.inputs:
                draft.inputs[leaf] = None
                self._use(leaf, draft.parent or self.root, draft)
        for leaf in results:
            if isinstance(leaf, FlatNode) and self._within(leaf, draft):
                self._offer(leaf, draft)
            else:
                self._use(leaf, draft, None)

    def _within(self, node: FlatNode, draft: Draft) -> bool:
        inner = self.owner[node.index]
        return inner is not None and self._encloses(draft, inner)

    @staticmethod
    def _encloses(draft: Draft, inner: Draft) -> bool:
        while inner.depth > draft.depth and inner.parent is not None:
            inner = inner.parent
        return inner is draft

    def _offer(self, node: FlatNode, draft: Draft) -> None:
        inner: Draft | None = self.owner_of(node)
        while inner is not None and inner.depth >= draft.depth:
            inner.outputs[node] = None
            if inner.parent is not None:
                inner.parent.visible[node] = inner
            inner = inner.parent

    def _use(self, value: Value, draft: Draft, by: Item | None) -> None:
        """Brings a value to a draft that uses it."""
        if isinstance(value, FlatInput):
            self._use_input(value, draft)
        elif self.floats(value):
            draft.scalars[value] = None
        else:
            self._bring(value, draft, by)

    def _use_input(self, value: FlatInput, draft: Draft) -> None:
        if value.source is Source.TOKEN or value in draft.inputs:
            return
        while draft.parent is not None and not (value.source is not Source.USER and self.owns(draft, value)):
            if value in draft.inputs:
                return
            draft.inputs[value] = None
            draft = draft.parent

    def owns(self, draft: Draft, value: FlatInput) -> bool:
        """Whether the called module, or one inside it, holds a state entry."""
        if draft.parent is None or value in self.state.literals:
            return True
        return any(owner.is_within(draft.path) for owner, _ in self.state.names[value])

    def _bring(self, value: FlatNode, draft: Draft, by: Item | None, holder: Draft | None = None) -> None:
        """Hands a value out of the calls around its operator and into those around its user."""
        source: Item = value
        a, b = holder or self.owner_of(value), draft
        while a is not b:
            if a.depth > b.depth:
                a.outputs[value] = None
                source = a
                a = a.parent or self.root
                a.visible[value] = source
            else:
                if value in b.inputs:
                    return
                b.inputs[value] = None
                by = b
                b = b.parent or self.root
        if by is not None and by is not source:
            a.edges[source, by] = None

    def _order(self, earlier: FlatNode, later: FlatNode) -> None:
        """Lifts an edge between effects to the innermost call around both."""
        a, b = self.owner[earlier.index], self.owner[later.index]
        if a is None or b is None:
            return
        source: Item = earlier
        target: Item = later
        while a is not b:
            if a.depth >= b.depth:
                source, a = a, a.parent or self.root
            if b.depth > a.depth:
                target, b = b, b.parent or self.root
        if source is not target and (source, target) not in a.edges:
            a.edges[source, target] = None
        if source is not target and source not in a.effects.setdefault(target, []):
            a.effects[target].append(source)

    def has(self, draft: Draft, value: Value) -> bool:
        """Whether a draft can use a value as it is: it computes it, is handed it, or holds it."""
        if isinstance(value, FlatInput):
            return value in draft.inputs or (
                draft.parent is None if value.source is Source.USER else self.owns(draft, value)
            )
        return self.owner[value.index] is draft or value in draft.inputs or value in draft.visible

    def _provide(self, scalar: FlatNode, draft: Draft) -> None:
        """Makes sure that a draft can compute a number, or is handed it."""
        while not self.computable(scalar, draft):
            holder = self._holder(scalar)
            if holder is not None and self._encloses(draft, holder):
                self._bring(scalar, draft, None, holder)  # only a call inside has the tensor
                return
            if draft.parent is None:
                for value in scalar.operands:
                    if isinstance(value, FlatNode) and self.floats(value):
                        self._provide(value, draft)
                return
            draft.inputs[scalar] = None
            draft = draft.parent
            draft.scalars[scalar] = None

    def _holder(self, scalar: FlatNode) -> Draft | None:
        """The draft that computes the tensor whose size a number is."""
        tensor = scalar.operands[0] if is_size(scalar) else None
        return self.owner[tensor.index] if isinstance(tensor, FlatNode) else None

    def computable(self, scalar: FlatNode, draft: Draft) -> bool:
        """Whether a draft has what a number is computed from, or is handed the number."""
        known: dict[Value, bool] = {}
        for inner in self.parts(scalar):
            if inner in draft.inputs or inner in draft.visible:
                known[inner] = True
            elif is_size(inner):
                known[inner] = self.size_source(inner, draft, draft.inputs) is not None
            else:
                known[inner] = all(known[value] for value in inner.operands)
        return known[scalar]

    def parts(self, scalar: FlatNode) -> list[FlatNode]:
        """A number and the numbers that it is computed from, in an order to compute them in."""
        found: dict[FlatNode, None] = {}
        stack = [scalar]
        while stack:
            inner = stack.pop()
            if inner not in found:
                found[inner] = None
                stack.extend(value for value in inner.operands if isinstance(value, FlatNode) and self.floats(value))
        return sorted(found, key=lambda inner: inner.index)

    def size_source(self, scalar: FlatNode, draft: Draft, inputs: Iterable[Value]) -> tuple[Value, int] | None:
        """The tensor and dimension from which a draft reads a size: its own, or one of its inputs.

        Args:
            scalar: the operator that reads the size.
            draft: where it is needed.
            inputs: the draft's inputs, in the order of preference.
        """
        tensor, dimension = self.resolve(scalar.operands[0], draft), scalar.args[1]
        if self.has(draft, tensor) and tensor not in draft.inputs:
            return tensor, dimension
        wanted = size_expression(scalar)
        if wanted is None:
            return (tensor, dimension) if tensor in draft.inputs else None
        for value in inputs:
            for size, at in sizes(value):
                if size == wanted:
                    return value, at
        return None

    def scalar_needs(self, scalar: FlatNode, draft: Draft) -> Iterator[Item]:
        """What must run in a draft before it can compute a number."""
        pending, seen = [scalar], {scalar}
        while pending:
            inner = pending.pop()
            if inner in draft.inputs:
                continue
            if inner in draft.visible:
                yield draft.visible[inner]
            elif is_size(inner):
                found = self.size_source(inner, draft, draft.inputs)
                item = self.item_of(found[0], draft) if found else None
                if item is not None:
                    yield item
            else:
                fresh = [value for value in inner.operands if isinstance(value, FlatNode) and value not in seen]
                seen.update(fresh)
                pending.extend(fresh)

    def item_of(self, value: Value, draft: Draft) -> Item | None:
        """Which of a draft's items computes a value; None for what comes from outside or is held."""
        if isinstance(value, FlatInput) or value in draft.inputs:
            return None
        return value if self.owner[value.index] is draft else draft.visible.get(value)
