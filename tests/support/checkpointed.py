"""Models that compute parts of their forward again: within modules, selectively, and one part within another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

aten = torch.ops.aten


def _saves_products(_context: Any, op: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
    saved = op in (aten.mm.default, aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


class Leaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.act, self.b = nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.act(self.a(x)).sin())


class Inside(nn.Module):
    """Checkpoints what it calls."""

    def __init__(self, *, selective: bool = False) -> None:
        super().__init__()
        self.leaf, self.selective = Leaf(), selective

    def forward(self, x: Tensor) -> Tensor:
        if not self.selective:
            return checkpoint(self.leaf, x, use_reentrant=False)
        contexts = functools.partial(create_selective_checkpoint_contexts, _saves_products)
        return checkpoint(self.leaf, x, use_reentrant=False, context_fn=contexts)


class Nested(nn.Module):
    """Checkpoints a part that has a checkpoint of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Inside(), Leaf()

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(lambda y: self.two(self.one(y)), x, use_reentrant=False)


class Layers(nn.Module):
    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


CHECKPOINTED: dict[str, Callable[[], nn.Module]] = {
    "inside": lambda: Layers(Inside),
    "selective": lambda: Layers(lambda: Inside(selective=True)),
    "nested": lambda: Layers(Nested),
}
