"""Finding the modules of a program that are genuine ones, before code is written for the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from unflatten import _torch
from unflatten.code.body import Local, frozen
from unflatten.code.nesting import assemble
from unflatten.flat.values import FlatInput, FlatNode, Modes, Source, Value
from unflatten.grouping.drafts import Draft
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.modes import added_modes
from unflatten.grouping.ordering import Arrangement
from unflatten.grouping.shapes import size_expression
from unflatten.leaves.leaf import Leaf, StateSpec, name_of
from unflatten.leaves.outline import Outline, input_at, outline, size_of, state_named
from unflatten.leaves.proving import UNUSED, Known, Proof, Prover, Question
from unflatten.leaves.registry import Registration, for_class, for_operators
from unflatten.paths import ROOT, ModulePath
from unflatten.recording.record import is_handed_through
from unflatten.removed import REMOVED
from unflatten.signatures import Form, parameter_names

_SOURCES = (Source.PARAMETER, Source.BUFFER)


def recognise(
    grouping: Grouping, arranged: Mapping[Draft, Arrangement], ambient: Mapping[Draft, Modes], training: bool
) -> dict[ModulePath, nn.Module]:
    """Finds the modules that are genuine, and gives each of their calls a form.

    Args:
        grouping: the calls.
        arranged: the order of each.
        ambient: the modes around each.
        training: the mode that the program was captured in.

    Returns:
        For the path of each such module, one on the meta device that is like it, to be copied.
    """
    return _Pass(grouping, arranged, ambient, training).run()


@dataclass(slots=True)
class _Pass:
    grouping: Grouping
    arranged: Mapping[Draft, Arrangement]
    ambient: Mapping[Draft, Modes]
    training: bool
    prover: Prover = field(default_factory=Prover)
    proofs: dict[Hashable, Proof | None] = field(default_factory=dict)
    states: dict[ModulePath, dict[str, StateSpec]] = field(default_factory=dict)
    inside: dict[ModulePath, list[ModulePath]] = field(default_factory=dict)
    inputs: dict[tuple[ModulePath, str], FlatInput] = field(default_factory=dict)
    values: dict[Value, Hashable] = field(default_factory=dict)
    sizes: dict[Any, Any] = field(default_factory=dict)

    def run(self) -> dict[ModulePath, nn.Module]:
        calls: dict[ModulePath, list[Draft]] = {}
        for draft in self.grouping.drafts():
            if draft.parent is not None:
                calls.setdefault(draft.path, []).append(draft)
        self.index()
        found = {}
        for path, drafts in calls.items():
            if any(draft.children or draft.cut or draft.piece for draft in drafts):
                continue
            if not any(inner in calls for inner in self.below(path)):
                module = self.module(drafts)
                if module is not None:
                    found[path] = module
        return found

    def index(self) -> None:
        for path in self.grouping.program.paths:
            if path != ROOT:
                self.inside.setdefault(path.parent, []).append(path)
        for entry in self.grouping.state.entries:
            source = entry.source if isinstance(entry.value, torch.Tensor) else Source.OBJECT
            spec = StateSpec(source, entry.persistent, entry.value)
            self.states.setdefault(entry.owner, {})[entry.name] = spec
        for value, names in self.grouping.state.names.items():
            self.inputs.update((name, value) for name in names)

    def below(self, path: ModulePath) -> Iterable[ModulePath]:
        for inner in self.inside.get(path, ()):
            yield inner
            yield from self.below(inner)

    def module(self, drafts: list[Draft]) -> nn.Module | None:
        """A module that all calls are calls of, if there is one."""
        proofs: list[Proof] = []
        for draft in drafts:
            proof = self.proof(draft)
            if proof is None or proof.key != (proofs or [proof])[0].key:
                return None
            proofs.append(proof)
        names = {name for name, _ in proofs[0].prototype.named_modules() if name}
        path = drafts[0].path
        if names != {".".join(inner.below(path)) for inner in self.below(path)}:
            return None
        for draft, proof in zip(drafts, proofs, strict=True):
            if draft.form is None:
                draft.form = _form(proof, self.arranged[draft])
        return proofs[0].prototype

    def proof(self, draft: Draft) -> Proof | None:
        type_name = draft.call.type_name if draft.call else ""
        candidates: list[Registration] | None = None
        if type_name:
            candidates = for_class(type_name)
            if not candidates:
                return None
        call = self.call(draft)
        told = self.known(draft, call)
        if told is None:
            return None
        key = (type_name, call.key(told[0]), self.ambient.get(draft, ()))
        if key not in self.proofs:
            if candidates is None:
                candidates = list(for_operators(call.leaf.names()))
            question = Question(call.leaf, call.outline, told[0], self.ambient.get(draft, ()), self.training)
            self.proofs[key] = self.prover.prove(question, candidates)
        return self.proofs[key]

    def call(self, draft: Draft) -> _Call:
        path, order = draft.path, self.arranged[draft]
        state, held = self.state(path)
        given = {value: input_at(at) for at, value in enumerate(order.inputs)}
        nodes = _operators(order)
        local: dict[Value, Local] = {node: Local(at) for at, node in enumerate(nodes)}
        replaced = self.grouping.program.replaced
        outside = dict(given)

        def reference(node: FlatNode, value: Value) -> Any:
            if replaced:
                value = replaced.get((node, value), value)
                if value in local:
                    return local[value]
            value, raw = self.grouping.resolve(value, draft), value
            if value in given:
                outside[raw] = given[value]
                return given[value]
            if isinstance(value, FlatInput):
                return state_named(held[value]) if value in held else value
            return local[value] if value in local else self.size(value)

        ambient = self.ambient.get(draft, ())
        modes = [added_modes(node.modes, ambient) if node.modes else () for node in nodes]
        written = outline(nodes, modes, reference)
        outputs = tuple(node for node in order.outputs if not is_handed_through(node.meta))
        leaf = Leaf(nodes, order.inputs, outputs, state, held, outside)
        ends = tuple(local.get(node, node) for node in outputs)
        inputs = tuple(self.spec(value) for value in order.inputs)
        return _Call(leaf, written, inputs, ends, given, local)

    def state(self, path: ModulePath) -> tuple[dict[str, StateSpec], dict[FlatInput, str]]:
        state: dict[str, StateSpec] = {}
        held: dict[FlatInput, str] = {}
        for owner in (path, *self.below(path)):
            prefix = "".join(f"{name}." for name in owner.below(path))
            for name, spec in self.states.get(owner, {}).items():
                state[prefix + name] = spec
                value = self.inputs.get((owner, name))
                if value is not None:
                    held.setdefault(value, prefix + name)
        return state, held

    def size(self, value: FlatNode) -> Any:
        """What stands for a number that is computed from sizes."""
        expression = size_expression(value)
        if expression is None:
            number = value.meta.get("val")
            return number if isinstance(number, int) else value
        return size_of(self.text(expression))

    def text(self, expression: Any) -> str:
        if expression not in self.sizes:
            self.sizes[expression] = str(expression)
        found: str = self.sizes[expression]
        return found

    def spec(self, value: Value) -> Hashable:
        """What a proof may depend on of a value that goes in."""
        if value not in self.values:
            tensor = value.meta.get("val")
            if isinstance(tensor, torch.Tensor):
                shape = tuple(self.symbolic(size) for size in tensor.shape)
                self.values[value] = shape, tensor.dtype, tensor.device
            else:
                self.values[value] = None
        return self.values[value]

    def symbolic(self, size: Any) -> Any:
        expression = _torch.symbolic_expression(size)
        return size if expression is None else self.text(expression)

    def known(self, draft: Draft, call: _Call) -> tuple[Known | None] | None:
        """How the call is written, if that is known; None where that can't be told in terms of what it is given."""
        form = draft.form
        if form is None:
            through = any(is_handed_through(node.meta) for node in self.arranged[draft].outputs)
            return None if through else (None,)
        if any(leaf is REMOVED for leaf in form.arguments):
            return None

        def written(leaf: Any) -> Any:
            if not isinstance(leaf, FlatNode | FlatInput):
                return leaf
            if leaf in call.local:
                return call.local[leaf]
            found = self.grouping.resolve(leaf, draft)
            return call.given.get(found, call.local.get(found, leaf))

        arguments, results = [written(leaf) for leaf in form.arguments], [written(leaf) for leaf in form.results]
        if any(isinstance(leaf, FlatNode | FlatInput) for leaf in (*arguments, *results)):
            return None
        args, kwargs = assemble(form.in_spec, arguments)
        return (Known(args, kwargs, assemble(form.out_spec, results)),)


@dataclass(frozen=True, eq=False, slots=True)
class _Call:
    leaf: Leaf
    outline: Outline
    inputs: tuple[Hashable, ...]
    ends: tuple[Any, ...]
    given: Mapping[Value, Local]
    local: Mapping[Value, Local]

    def key(self, known: Known | None) -> Hashable:
        state = tuple(
            (name, spec.source, spec.persistent, spec.tensor.shape, spec.tensor.dtype)
            if isinstance(spec.tensor, torch.Tensor)
            else name
            for name, spec in self.leaf.state.items()
        )
        names = tuple(self.leaf.held.values())
        form = frozen((known.args, dict(known.kwargs), known.result)) if known else None
        return self.outline.key(), self.inputs, frozen(self.ends), state, names, form


def _operators(order: Arrangement) -> tuple[FlatNode, ...]:
    """The operators of a call, but for those that read sizes: what these give is known by what it is."""
    items = (item for item in order.items if isinstance(item, FlatNode) and not is_handed_through(item.meta))
    return tuple(item for item in items if not name_of(item).startswith("sym_") or size_expression(item) is None)


def _form(proof: Proof, order: Arrangement) -> Form:
    """How a call is written that was proved to be one of a module."""
    nodes = _operators(order)

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, Local):
            return None if leaf is UNUSED else leaf
        return nodes[leaf.index] if leaf.index >= 0 else order.inputs[-1 - leaf.index]

    call = (proof.args, dict(proof.kwargs))
    in_spec = _torch.structure(call)
    return Form(
        arguments=tuple(value(leaf) for leaf in _torch.tree_leaves(call)),
        in_spec=in_spec,
        results=tuple(value(leaf) for leaf in _torch.tree_leaves(proof.result)),
        out_spec=_torch.structure(proof.result),
        names=parameter_names(in_spec, forward_names(type(proof.prototype))),
    )


def forward_names(cls: type[nn.Module]) -> tuple[str, ...]:
    """The names of the parameters of a class's `forward`, without `self`."""
    code = cls.forward.__code__
    return code.co_varnames[1 : code.co_argcount]
