"""What tests of spiking frameworks share: importing one, and comparing its steps with those of its graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nir_bridge import Dynamics, from_nir, to_nir

STEPS = 100


def framework(name: str) -> Any:
    """A module of a framework; skips the tests where it is not installed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated", DeprecationWarning)
        reason = f"{name} is not installed; `make test-frameworks` installs the frameworks and runs these tests"
        return pytest.importorskip(name, reason=reason, exc_type=ImportError)


def strong(model: nn.Module, factor: float) -> nn.Module:
    """A model with weights that make its neurons spike, without learning."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
                module.weight.mul_(factor)
    return model.requires_grad_(False)


def events(*shape: int) -> Tensor:
    """Spikes that come in, time first, then a batch of two."""
    return (torch.rand(STEPS, 2, *shape, generator=torch.Generator().manual_seed(0)) < 0.4).float()


def assert_same(
    model: nn.Module,
    xs: Tensor,
    run: Callable[[], Tensor],
    dynamics: str | Dynamics,
    batch_dims: int = 1,
    example: Tensor | None = None,
) -> None:
    """Checks that the graph of a model gives exactly its spikes, under the preset, and by what the graph says itself.

    Args:
        model: the model.
        xs: the series, time first.
        run: the model's own outputs, time first.
        dynamics: a preset of the framework, or what it is with changes.
        batch_dims: how many axes in front the model takes beside those of the signal.
        example: what the model is exported with; one step where it is not given.
    """
    rules = None if isinstance(dynamics, str) else dynamics
    given = xs[0] if example is None else example
    graph = to_nir(model, args=(given,), batch_dims=batch_dims, dynamics=rules)
    theirs = run()
    assert 0.01 < theirs.mean() < 5, "the test has to make neurons spike"
    for net in (from_nir(graph, dynamics=dynamics), from_nir(graph)):
        ours, _ = net.run(xs)
        assert torch.equal(ours, theirs), f"{int((ours != theirs).sum())} of {theirs.numel()} differ"
