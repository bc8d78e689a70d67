"""Proving that a call is one of a module: what is proposed is made, run and compared."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from unflatten import _torch
from unflatten.code.body import Local, frozen
from unflatten.flat.operators import trained_mode
from unflatten.flat.values import FlatInput, FlatNode, Modes, Source
from unflatten.leaves.leaf import Leaf, Proposal, StateSpec
from unflatten.leaves.outline import Fingerprint, Numbers, Outline, fingerprint
from unflatten.leaves.registry import Registration
from unflatten.leaves.running import Run, Runner

UNUSED = object()
"""Stands for a result of a module that the program does not compute, because nothing uses it."""


@dataclass(frozen=True, eq=False, slots=True)
class Known:
    """How a call is written and what it returns, with what stands for values; None where it isn't known."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """A call, and all that an answer may depend on.

    Attributes:
        leaf: the call.
        outline: its operators.
        known: how it is written, where the program tells.
        ambient: the modes around it.
        training: the mode that the rest of the program is in.
    """

    leaf: Leaf
    outline: Outline
    known: Known | None
    ambient: Modes
    training: bool


@dataclass(frozen=True, eq=False, slots=True)
class Proof:
    """A module that a call is one of.

    Attributes:
        key: equal for modules that are made alike.
        prototype: the module, on the meta device.
        args, kwargs: how it is called, with what stands for inputs.
        result: what it returns, with `Local`s for operators of the call and what stands for inputs.
    """

    key: Hashable
    prototype: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


@dataclass(slots=True)
class Prover:
    """Proves, and remembers the modules that it made."""

    prototypes: dict[Hashable, nn.Module | None] = field(default_factory=dict)

    def prove(self, question: Question, candidates: list[Registration]) -> Proof | None:
        """The first proposal that holds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what constructors have to say was said to the model's author
            proposals = ((one.cls, found) for one in candidates for found in one.recogniser(question.leaf, one.cls))
            proofs = (self._try(question, cls, proposal) for cls, proposal in proposals)
            return next((proof for proof in proofs if proof is not None), None)

    def _try(self, question: Question, cls: type[nn.Module], proposal: Proposal) -> Proof | None:
        for training in _modes(question, proposal):
            key = cls, frozen(dict(proposal.kwargs)), training
            prototype = self._made(key, cls, proposal.kwargs, training)
            if prototype is None or not _holds_the_same(prototype, question.leaf.state):
                return None
            proof = _compared(question, prototype, proposal, key)
            if proof is not None:
                return proof
        return None

    def _made(self, key: Hashable, cls: type[nn.Module], kwargs: Mapping[str, Any], training: bool) -> nn.Module | None:
        if key not in self.prototypes:
            self.prototypes[key] = None
            try:
                with torch.device("meta"):
                    self.prototypes[key] = cls(**kwargs).train(training)
            except Exception:  # noqa: BLE001 - whatever a constructor raises, it is not what the program has
                return None
        return self.prototypes[key]


def _modes(question: Question, proposal: Proposal) -> Iterator[bool]:
    if proposal.training is not None:
        yield proposal.training
        return
    yield question.training
    if any(trained_mode(node) is (not question.training) for node in question.leaf.nodes):
        yield not question.training


def _holds_the_same(module: nn.Module, state: Mapping[str, StateSpec]) -> bool:
    """Whether a module has the entries that the program has for it, of the same kinds and sizes."""
    found: dict[str, tuple[Source, bool, tuple[int, ...]]] = {}
    for prefix, inner in module.named_modules():
        dot = f"{prefix}." if prefix else ""
        for name, value in inner._parameters.items():
            if value is not None:
                found[dot + name] = Source.PARAMETER, True, tuple(value.shape)
        for name, buffer in inner._buffers.items():
            if buffer is not None:
                persistent = name not in inner._non_persistent_buffers_set
                found[dot + name] = Source.BUFFER, persistent, tuple(buffer.shape)
    return found == {name: (spec.source, spec.persistent, spec.shape) for name, spec in state.items()}


def _compared(question: Question, prototype: nn.Module, proposal: Proposal, key: Hashable) -> Proof | None:
    leaf = question.leaf
    args, kwargs = _call(question, proposal)
    inputs = [tensor for value in leaf.inputs if isinstance(tensor := value.meta.get("val"), torch.Tensor)]
    if len(inputs) < len(leaf.inputs):
        return None
    for ran in Runner(leaf.state, inputs, question.ambient, leaf.nodes).runs(prototype, args, kwargs):
        result = _matched(question, ran)
        if result is not None:
            return Proof(key, prototype, args, kwargs, result[0])
    return None


def _call(question: Question, proposal: Proposal) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """How the call is written: as the program says, or as proposed."""
    if question.known is not None:
        return question.known.args, question.known.kwargs
    leaf = question.leaf
    args = leaf.user_arguments() if proposal.args is None else proposal.args

    def written(value: Any) -> Any:
        return leaf.given_as.get(value, value) if isinstance(value, FlatNode | FlatInput) else value

    return _torch.map_leaves((tuple(args), dict(proposal.call_kwargs)), written)  # type: ignore[no-any-return]


def _matched(question: Question, ran: Run) -> tuple[Any] | None:
    """What the call returns, if it is the one that ran."""
    leaf = question.leaf
    numbers = Numbers()
    position = {node: at for at, node in enumerate(leaf.nodes)}
    if any(value not in position for value in leaf.outputs):
        return None  # a size that others are handed
    ends = [Local(position[value]) for value in leaf.outputs]
    device = next((value.meta["val"].device for value in leaf.inputs), None)
    if device is None:
        device = next((spec.tensor.device for spec in leaf.state.values()), None)
    returned = [value for value in _torch.tree_leaves(ran.result) if isinstance(value, Local)]
    theirs = fingerprint(ran.outline, numbers, returned, device)
    ours = fingerprint(question.outline, numbers, ends, None)
    if not _alike(ours, theirs):
        return None
    if any(theirs.numbers[at] != ours.numbers[position[node]] for at, node in ran.answered.items()):
        return None  # an operator was given the result of another one
    result = _returned(ran.result, theirs, ours, leaf)
    if question.known is not None:
        return _as_known(result, question.known.result, ours)
    offered = {value.index for value in _torch.tree_leaves(result) if isinstance(value, Local)}
    return (result,) if all(end.index in offered for end in ends) else None


def _alike(ours: Fingerprint, theirs: Fingerprint) -> bool:
    """Whether the program has all that ran and matters, and nothing that did not run."""
    here, there = ours.counted(range(len(ours.numbers))), theirs.counted(range(len(theirs.numbers)))
    if here - there:
        return False
    missing = set(there - here)  # results that nothing uses may have been left out, effects not
    return not any(theirs.numbers[at] in missing for at in theirs.acts)


def _returned(result: Any, theirs: Fingerprint, ours: Fingerprint, leaf: Leaf) -> Any:
    outputs = {node: at for at, node in enumerate(leaf.nodes) if node in leaf.outputs}
    first: dict[Any, int] = {}
    for at in (*outputs.values(), *range(len(leaf.nodes))):
        first.setdefault(ours.numbers[at], at)

    def written(value: Any) -> Any:
        if isinstance(value, Local) and value.index >= 0:
            number = theirs.numbers[value.index]
            return Local(first[number]) if number in first else UNUSED
        return value

    return _torch.map_leaves(result, written)


def _as_known(result: Any, known: Any, ours: Fingerprint) -> tuple[Any] | None:
    """The result as the program records it, if it is the same."""
    if _torch.structure(result) != _torch.structure(known):
        return None
    pairs = zip(_torch.tree_leaves(result), _torch.tree_leaves(known), strict=True)
    return (known,) if all(a is UNUSED or ours.number(a) == ours.number(b) for a, b in pairs) else None
