"""Which module call each node of a training graph really belongs to.

Hooks of modules say which call is running, and write it at once on every autograd node that the call makes. Hooks of
autograd nodes say it again when they run. What is written stands in a field of the metadata that no pass of torch
uses. A sum of gradients belongs to all users of what they are the gradient of: its owner is the innermost call around
them. The engine makes it right after one of them ran.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
import torch.utils._pytree as pytree
from torch import fx, nn

from unflatten.paths import Scope

KEY = "quantization_tag"
Label = tuple[str, ...]
"""Calls from the outermost inwards, each as its path, with `@n` after it but for the first call."""


@dataclass
class Truth:
    """Writes labels while a model is traced.

    Attributes:
        stack: the calls that are running.
        labels: of autograd nodes.
        users: the labels of those that an output of an autograd node was given to.
        arrived: how many gradients of such an output there are already.
        counts: of the calls of each path.
    """

    stack: list[str] = field(default_factory=list)
    labels: dict[Any, Label] = field(default_factory=dict)
    users: dict[Any, list[Label]] = field(default_factory=dict)
    arrived: Counter[Any] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def write(self, model: nn.Module) -> Iterator[None]:
        hooks = []
        for path, module in model.named_modules():
            hooks.append(module.register_forward_pre_hook(self._enter(path)))
            hooks.append(module.register_forward_hook(self._leave, always_call=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, path: str) -> Any:
        def enter(_module: nn.Module, args: Any) -> None:
            if not self.stack:
                self.counts.clear()
            self._label(args)
            count = self.counts[path]
            self.counts[path] += 1
            self.stack.append(f"{path}@{count}" if count else path)
            self._say()

        return enter

    def _leave(self, _module: nn.Module, _args: Any, result: Any) -> None:
        self._label(result)
        self.stack.pop()
        self._say()

    @property
    def _now(self) -> Label:
        return tuple(path for path in self.stack if path)

    def _say(self) -> None:
        if self.stack:
            fx_traceback.current_meta[KEY] = ("fw", self._now)
        else:
            fx_traceback.current_meta.pop(KEY, None)

    def _label(self, value: Any) -> None:
        pending = [leaf.grad_fn for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        while pending:
            node = pending.pop()
            if node is None or node in self.labels or type(node).__name__ == "AccumulateGrad":
                continue
            label = self.labels[node] = self._now
            node.register_prehook(self._begin(label))
            node.register_hook(self._end(node))
            pending += [other for other, _ in node.next_functions]
            for edge in node.next_functions:
                self.users.setdefault(edge, []).append(label)

    @staticmethod
    def _begin(label: Label) -> Any:
        def begin(_grads: Any) -> None:
            fx_traceback.current_meta[KEY] = ("bw", label)

        return begin

    def _end(self, node: Any) -> Any:
        def end(given: Any, _taken: Any) -> None:
            edges = [edge for edge, grad in zip(node.next_functions, given, strict=True) if grad is not None]
            sums = tuple(_around(self.users[edge]) for edge in edges if self.arrived[edge])
            self.arrived.update(edges)
            fx_traceback.current_meta[KEY] = ("sums", sums)

        return end


def _around(labels: list[Label]) -> Label:
    shared = labels[0]
    for label in labels[1:]:
        size = next((at for at, (a, b) in enumerate(zip(shared, label, strict=False)) if a != b), len(label))
        shared = shared[:size]
    return shared


def truths(graph: fx.Graph) -> dict[fx.Node, Label]:
    """The call of every node that computes something; nodes that no module made belong to the root."""
    found: dict[fx.Node, Label] = {}
    sums: dict[int, list[Label]] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        kind, label = node.meta.get(KEY, ("fw", ()))
        if kind == "sums":
            left = sums.setdefault(id(label), list(label))
            found[node] = left.pop(0) if left else ()
        else:
            found[node] = label
    return found


class Labelled(nn.Module):
    """A flat module run node by node, each with the label that its stack spells, and its autograd nodes with it."""

    def __init__(self, flat: fx.GraphModule, truth: Truth) -> None:
        super().__init__()
        self.flat, self._truth = flat, truth

    def forward(self, *args: torch.Tensor) -> Any:
        return _Labeller(self.flat, self._truth).run(*args)


class _Labeller(fx.Interpreter):
    def __init__(self, flat: fx.GraphModule, truth: Truth) -> None:
        super().__init__(flat)
        self._truth = truth

    def run_node(self, n: fx.Node) -> Any:
        self._truth.stack = [*_spelled(n)]
        n.meta[KEY] = ("fw", self._truth._now)
        result = super().run_node(n)
        self._truth._label(result)
        self._truth.stack = []
        return result


def _spelled(node: fx.Node) -> Iterator[str]:
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        _, at, count = str(key).rpartition("@")
        name = re.sub(r"^L\['\w+'\]\.?", "", path)
        yield f"{name}@{count}" if at and count.isdigit() else name


@dataclass(frozen=True)
class Score:
    """How many nodes are owned exactly, by an ancestor, and wrongly."""

    exact: int
    coarser: int
    wrong: tuple[str, ...]

    @property
    def share(self) -> float:
        """The share that is exact."""
        return self.exact / max(1, self.exact + self.coarser + len(self.wrong))


def score(true: Mapping[fx.Node, Label], scopes: Mapping[fx.Node, Scope]) -> Score:
    """Compares owners with the truth."""
    exact = coarser = 0
    wrong = []
    for node, label in true.items():
        given = tuple(str(call) for call in scopes[node])
        if given == label:
            exact += 1
        elif given == label[: len(given)]:
            coarser += 1
        else:
            wrong.append(f"{node.name}: {given}, truly {label}")
    return Score(exact, coarser, tuple(wrong))


def paths_only(true: Mapping[fx.Node, Label]) -> dict[fx.Node, Label]:
    """The labels of graphs that tell no calls: a module and all that hold it, containers too."""
    found = {}
    for node, label in true.items():
        names = label[-1].partition("@")[0].split(".") if label else []
        found[node] = tuple(".".join(names[: size + 1]) for size in range(len(names)))
    return found
