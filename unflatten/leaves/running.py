"""Running a module on the meta device, to see the operators of its call."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from unflatten import _torch
from unflatten.code.body import Local
from unflatten.flat.operators import facts_of
from unflatten.flat.values import FlatInput, FlatNode, Mode, Modes, Source, Value
from unflatten.leaves.leaf import StateSpec
from unflatten.leaves.outline import Outline, input_at, items_of, outline, size_of, state_named
from unflatten.leaves.sizes import Sizes


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """A call of a module, as it was run.

    Attributes:
        outline: its operators.
        result: what it returned, with what stands for tensors.
        answered: for positions of operators whose results came from the program, the operators there.
    """

    outline: Outline
    result: Any
    answered: Mapping[int, FlatNode]


@dataclass(frozen=True, eq=False, slots=True)
class Runner:
    """Runs calls of modules on tensors without data.

    Attributes:
        state: what the module holds in the program.
        inputs: what the call is given, in the program.
        ambient: the modes around the call.
        nodes: the operators of the call in the program.
    """

    state: Mapping[str, StateSpec]
    inputs: Sequence[torch.Tensor]
    ambient: Modes
    nodes: Sequence[FlatNode]

    def runs(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Run]:
        """A call, its arguments with what stands for inputs, run in one way after another.

        First, the operators' results are taken from the program, which is fast, and right if the operators turn out
        to be the program's. Then they are computed.
        """
        symbolic = any(isinstance(size, torch.SymInt) for tensor in self.inputs for size in tensor.shape)
        computed = [_Way(fake=True), _Way(fake=True, by_python=True)] if symbolic else [_Way()]
        for way in (_Way(answered=True), *computed):
            ran = None
            with contextlib.suppress(Exception):  # whatever a module raises, it is not what the program called
                ran = self._run(module, (args, kwargs), way)
            if ran is not None:
                yield ran

    def _run(self, module: nn.Module, call: Any, way: _Way) -> Run | None:
        sizes = Sizes()
        with contextlib.ExitStack() as stack:
            if way.fake:
                stack.enter_context(sizes.tensors())
            stack.enter_context(torch.enable_grad())
            for mode in self.ambient:
                stack.enter_context(_entered(mode))
            given, own = [_like(tensor, sizes) for tensor in self.inputs], _own_state(self.state)
            args, kwargs = _torch.map_leaves(call, lambda leaf: given[-1 - leaf.index] if _is_input(leaf) else leaf)
            reader = _Reader(sizes, given, own, torch.is_grad_enabled())
            answer = _Answers(self.nodes, sizes) if way.answered else None
            result, rows = _torch.record(
                lambda: torch.func.functional_call(module, own, args, kwargs, tie_weights=False), way.by_python, answer
            )
        return None if sizes.specialised else reader.read(rows, result, answer.given if answer else {})


@dataclass(frozen=True, slots=True)
class _Way:
    """How operators are run: see `Runner.runs`, `Sizes.tensors` and `_torch.record`."""

    answered: bool = False
    fake: bool = False
    by_python: bool = False


class _Answers:
    """Results of the program's operators, handed out in their order to operators of the same kind."""

    def __init__(self, nodes: Sequence[FlatNode], sizes: Sizes) -> None:
        self.sizes = sizes
        self.waiting: dict[Any, list[FlatNode]] = {}
        self.given: dict[int, FlatNode] = {}
        for node in reversed(nodes):
            facts = facts_of(node.target)
            if not facts.writes and not facts.views:  # what is new memory, not the memory of an operand
                self.waiting.setdefault(node.target, []).append(node)

    def __call__(self, target: Any) -> Any:
        """The result of the next such operator; None if there is none."""
        waiting = self.waiting.get(target)
        if not waiting:
            return None
        node = waiting.pop()
        value = node.meta.get("val")
        made: Any = None
        if isinstance(value, torch.Tensor):
            made = _like(value, self.sizes)
        elif isinstance(value, tuple | list) and all(isinstance(item, torch.Tensor) for item in value):
            made = tuple(_like(item, self.sizes) for item in value)
        if made is not None:
            self.given[id(made)] = node
        return made


def _is_input(leaf: Any) -> bool:
    return isinstance(leaf, Local) and leaf.index < 0


def _own_state(state: Mapping[str, StateSpec]) -> dict[str, torch.Tensor]:
    """Tensors like those that a module holds; what is one tensor there is one here."""
    made: dict[int, torch.Tensor] = {}
    found = {}
    for name, spec in state.items():
        if id(spec.tensor) not in made:
            like = spec.tensor
            empty = torch.empty(like.shape, dtype=like.dtype, device="meta")
            made[id(like)] = empty.requires_grad_(like.requires_grad)
        found[name] = made[id(spec.tensor)]
    return found


def _like(tensor: torch.Tensor, sizes: Sizes) -> torch.Tensor:
    shape = [sizes.like(size) for size in tensor.shape]
    return torch.empty(shape, dtype=tensor.dtype, device="meta")


def _entered(mode: Mode) -> Any:
    if mode.kind == "grad":
        return torch.set_grad_enabled(mode.value)
    dtype, enabled, cache = mode.value
    return torch.autocast(mode.kind.removeprefix("autocast "), dtype=dtype, enabled=enabled, cache_enabled=cache)


class _Reader:
    """Turns what ran into operators of the kind that programs are read into."""

    def __init__(
        self, sizes: Sizes, given: Sequence[torch.Tensor], own: Mapping[str, torch.Tensor], grad: bool
    ) -> None:
        self.sizes = sizes
        self.grad = grad
        self.known: dict[int, Value] = {}
        self.stands: dict[Value, Any] = {}
        self.created: dict[Hashable, Value | None] = {}
        for name, tensor in own.items():
            self.enter(tensor, FlatInput(name, Source.PARAMETER, name, {}), state_named(name))
        for at, tensor in enumerate(given):
            self.enter(tensor, FlatInput(f"input_{at}", Source.USER, "", {}, at), input_at(at))
        self.nodes: list[FlatNode] = []
        self.modes: list[Modes] = []

    def enter(self, tensor: torch.Tensor, value: FlatInput, stands: Any) -> None:
        if id(tensor) not in self.known:
            self.known[id(tensor)] = value
            self.stands[value] = stands

    def read(self, rows: Sequence[_torch.Recorded], result: Any, given: Mapping[int, FlatNode]) -> Run | None:
        answered = {}
        for target, args, kwargs, out, grad in rows:
            if isinstance(out, torch.SymInt):
                continue  # known by what it is, wherever it is used
            operands: dict[Value, None] = {}
            new_args = self.values(args, operands)
            new_kwargs = self.values(kwargs, operands)
            index = len(self.nodes)
            node = FlatNode(index, f"op_{index}", target, new_args, new_kwargs, tuple(operands), {}, None)
            self.add(node, grad)
            self.results(node, out, grad)
            if id(out) in given:
                answered[index] = given[id(out)]
        made = outline(self.nodes, self.modes, lambda _, value: self.stands[value])
        self.stands.update((node, Local(at)) for at, node in enumerate(self.nodes))
        return Run(made, _torch.map_leaves(_torch.map_leaves(result, self.value), self.standing), answered)

    def standing(self, leaf: Any) -> Any:
        return self.stands[leaf] if isinstance(leaf, FlatNode | FlatInput) else leaf

    def add(self, node: FlatNode, grad: bool) -> None:
        self.nodes.append(node)
        self.modes.append(() if grad == self.grad else (Mode("grad", grad),))

    def results(self, node: FlatNode, out: Any, grad: bool) -> None:
        if isinstance(out, torch.Tensor):
            self.known[id(out)] = node
            # What an operator creates may reach the module as another tensor over the same memory.
            self.created[_memory(out)] = None if _memory(out) in self.created else node
        elif isinstance(out, tuple | list):
            for item, value in zip(items_of(node, len(out), len(self.nodes)), out, strict=True):
                if isinstance(value, torch.Tensor):
                    self.add(item, grad)
                    self.known[id(value)] = item

    def values(self, arguments: Any, operands: dict[Value, None]) -> Any:
        found = _torch.map_leaves(arguments, self.value)
        operands.update((leaf, None) for leaf in _torch.tree_leaves(found) if isinstance(leaf, FlatNode | FlatInput))
        return found

    def value(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            found = self.known.get(id(leaf)) or self.created.get(_memory(leaf))
            return leaf if found is None else found
        if isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool):
            expression = self.sizes.translated(leaf)
            return int(expression) if expression.is_Integer else size_of(str(expression))
        return leaf


def _memory(tensor: torch.Tensor) -> Hashable:
    layout = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return _torch.memory_id(tensor), tuple(size if type(size) is int else str(size) for size in layout)
