"""What modules hold: parameters, buffers and tensors that are neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from unflatten.calls.known import Place
from unflatten.code.body import frozen
from unflatten.modules import PLACE
from unflatten.source.expressions import Expression, Literal, New
from unflatten.source.parts import Tensor


def constants_of(module: nn.Module) -> Mapping[str, torch.Tensor]:
    """The tensors that a module holds as plain attributes, by name in order."""
    place: Place | None = module.__dict__.get(PLACE)
    found = {name: module.__dict__.get(name) for name in sorted(place.constants if place else ())}
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, torch.Tensor)}


def held_tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor that a module holds itself, by name."""
    for table in (module._parameters, module._buffers, constants_of(module)):
        yield from ((name, tensor) for name, tensor in table.items() if tensor is not None)


def tensors_of(module: nn.Module) -> Iterator[Tensor]:
    """What makes the tensors that a module holds."""
    for name, parameter in module._parameters.items():
        yield Tensor(name, "parameter", _parameter(parameter))
    persistent = [name for name in module._buffers if name not in module._non_persistent_buffers_set]
    for name in persistent:
        yield Tensor(name, "buffer", _empty(module._buffers[name]))
    for name in sorted(module._buffers.keys() - set(persistent)):
        yield Tensor(name, "passing", _empty(module._buffers[name]))
    for name, tensor in constants_of(module).items():
        yield Tensor(name, "constant", _empty(tensor))


def _parameter(tensor: torch.Tensor | None) -> Expression:
    if tensor is None:
        return Literal(None)
    trainable = tensor.is_floating_point() or tensor.is_complex()
    return New("nn.Parameter", (("data", _empty(tensor)),), (("requires_grad", Literal(trainable)),), (frozen(True),))


def _empty(tensor: torch.Tensor | None) -> Expression:
    if tensor is None:
        return Literal(None)
    sizes = tuple((f"size_{at}" if at else "size", Literal(int(size))) for at, size in enumerate(tensor.shape))
    dtype = (("dtype", Literal(tensor.dtype)),)
    return New("torch.empty", sizes or (("size", Literal(())),), dtype, (frozen(torch.float32),))
