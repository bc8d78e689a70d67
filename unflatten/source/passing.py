"""Containers handed on whole: `self.lif(x, state["lif"])`, where a body names each of their items.

Also results of calls: `y, state = self.lif(x, state)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unflatten import _torch
from unflatten._torch import TreeSpec
from unflatten.code.body import Apply, Body, Invoke, Local, Parameter, frozen
from unflatten.code.nesting import Access, Item, Leaf, Made, Rebuilt, accesses
from unflatten.code.uses import locals_of

Whole = tuple[Hashable, tuple[Any, ...]]
"""A container: how it nests, and what is in it."""


def handed_on(body: Body, specs: Mapping[str, TreeSpec], result_of: Callable[[Invoke], Any]) -> Body:
    """A body that hands containers on as it got them.

    Args:
        body: the body.
        specs: how the argument of each parameter nests, where all calls agree.
        result_of: what the callee of a call returns, as its own body has it; None where that is not known.
    """
    passing = _Passing(list(body.names))
    for parameter in body.parameters:
        spec = specs.get(parameter.name)
        if spec is not None:
            passing.learn(parameter, spec, parameter.leaves)
    steps: list[Apply | Invoke] = []
    for at, step in enumerate(body.steps):
        steps.append(replace(step, args=passing.mapped(step.args), kwargs=passing.mapped_items(step.kwargs)))
        if isinstance(step, Invoke):
            passing.learn(at, spec_and_leaves(result_of(step))[0], step.outs)
    result = passing.mapped(body.result)
    if not passing.used:
        return body
    return _without_items(body, steps, result, passing)


def _without_items(body: Body, steps: list[Apply | Invoke], result: Any, passing: _Passing) -> Body:
    """The body with what is handed on bound, and items forgotten that are not used by themselves."""
    used = set(locals_of(result)) | {local for step in steps for local in locals_of((step.args, step.kwargs))}
    for at, step in enumerate(steps):
        if isinstance(step, Invoke) and at in passing.used:
            outs = (*step.outs, *passing.used[at])
            outs = tuple(sorted((out for out in outs if out[0] in used), key=lambda out: _place(out[1])))
            flat = all(len(access) == 1 and isinstance(access[0], Item) for _, access in outs) and len(outs) > 1
            count = passing.counts.get(at, 0)
            steps[at] = replace(step, outs=outs, flat=count if flat else 0)
    parameters = [
        replace(each, leaves=(*(leaf for leaf in each.leaves if leaf[0] in used), *passing.used.get(each, ())))
        for each in body.parameters
    ]
    return replace(body, parameters=tuple(parameters), steps=tuple(steps), result=result, names=tuple(passing.names))


def _place(access: Access) -> tuple[int, ...]:
    return tuple(step.key if isinstance(step, Item) and isinstance(step.key, int) else 0 for step in access)


@dataclass(slots=True)
class _Passing:
    """The containers that are known so far.

    Attributes:
        names: the names of locals.
        known: for each container, what has it, and where in that.
        used: for each parameter, and each step, the containers in it that are handed on.
        counts: for each call that returns a tuple, of how many.
    """

    names: list[str]
    known: dict[Whole, tuple[Parameter | int, Access]] = field(default_factory=dict)
    made: dict[Whole, Local] = field(default_factory=dict)
    used: dict[Parameter | int, list[tuple[int, Access]]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def learn(self, owner: Parameter | int, spec: TreeSpec | None, bound: Sequence[tuple[int, Access]]) -> None:
        """Notes the containers in an argument or a result."""
        if spec is None or spec.is_leaf():
            return
        if isinstance(owner, int) and spec.type is tuple:
            self.counts[owner] = spec.num_children
        by_access = {access: local for local, access in bound}
        for inner, access, leaves in _containers(spec):
            if isinstance(owner, int) and not access:
                continue
            if leaves and all(leaf in by_access for leaf in leaves):
                whole = _key(inner), tuple(by_access[leaf] for leaf in leaves)
                self.known.setdefault(whole, (owner, access))

    def mapped_items(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name with containers handed on."""
        return {name: self.mapped(value) for name, value in given.items()}

    def mapped(self, value: Any) -> Any:
        """A value with containers handed on."""
        if isinstance(value, tuple | list | Mapping | Rebuilt):
            spec, leaves = spec_and_leaves(value)
            if spec is not None and leaves and all(isinstance(leaf, Local) for leaf in leaves):
                whole = _key(spec), tuple(leaf.index for leaf in leaves)
                if whole in self.known:
                    return self.local(whole)
        if isinstance(value, tuple | list):
            return type(value)([self.mapped(item) for item in value])
        if isinstance(value, Mapping):
            return {key: self.mapped(item) for key, item in value.items()}
        return self.parts(value) if isinstance(value, Rebuilt) else value

    def parts(self, value: Rebuilt) -> Any:
        """A container that is put together, of containers that are handed on where it is a mapping of such."""
        keys, children = value.spec.context, value.spec.children()
        if not isinstance(keys, list) or len(keys) != len(children):
            return value
        items, at = [], 0
        for child in children:
            items.append((child, value.leaves[at : at + child.num_leaves]))
            at += child.num_leaves
        shown = [self.mapped(leaves[0] if child.is_leaf() else Rebuilt(child, leaves)) for child, leaves in items]
        kept = [
            (_torch.LEAF, (new,)) if isinstance(new, Local) else (child, leaves)
            for (child, leaves), new in zip(items, shown, strict=True)
        ]
        spec = _torch.tree_spec(value.spec.type, keys, [child for child, _ in kept])
        return Rebuilt(spec, tuple(leaf for _, leaves in kept for leaf in leaves))

    def local(self, whole: Whole) -> Local:
        """The number of a container."""
        if whole not in self.made:
            owner, access = self.known[whole]
            local = self.made[whole] = Local(len(self.names))
            steps = [str(step.key) for step in access if isinstance(step, Item) and isinstance(step.key, str)]
            self.names.append(steps[-1] if steps else owner.name if isinstance(owner, Parameter) else "state")
            self.used.setdefault(owner, []).append((local.index, access))
        return self.made[whole]


def _containers(spec: TreeSpec) -> Iterator[tuple[TreeSpec, Access, tuple[Access, ...]]]:
    """The containers in a value: how each nests, where it is, and where its leaves are."""
    every = accesses(spec)
    if any(isinstance(step, Leaf) for access in every for step in access):
        return
    stack = [(spec, 0, 0)]
    while stack:
        inner, depth, at = stack.pop()
        leaves = tuple(every[at : at + inner.num_leaves])
        if inner.is_leaf() or not leaves:
            continue
        yield inner, leaves[0][:depth], leaves
        for child in inner.children():
            stack.append((child, depth + 1, at))
            at += child.num_leaves


def spec_and_leaves(value: Any) -> tuple[TreeSpec | None, list[Any]]:
    """How a value of a body nests, and what is in it; no spec for objects."""
    if isinstance(value, Rebuilt):
        return value.spec, list(value.leaves)
    if isinstance(value, Made):
        return None, []
    if isinstance(value, Mapping) or type(value) in (tuple, list):
        items = list(value.values()) if isinstance(value, Mapping) else list(value)
        parts = [spec_and_leaves(item) for item in items]
        children = [spec for spec, _ in parts if spec is not None]
        if len(children) != len(parts):
            return None, []
        context = list(value) if isinstance(value, Mapping) else None
        kind = dict if isinstance(value, Mapping) else type(value)
        return _torch.tree_spec(kind, context, children), [leaf for _, leaves in parts for leaf in leaves]
    return _torch.LEAF, [value]


def _key(spec: TreeSpec) -> Hashable:
    return spec.type, frozen(spec.context), tuple(_key(child) for child in spec.children())
