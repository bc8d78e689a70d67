"""Telling tensors apart: which are one, and which share memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.nn import Parameter


def storage_key(value: Any) -> Hashable | None:
    """Equal for tensors that share memory, None for what is no tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    start = address(value)
    return ("memory", str(value.device), start) if start else ("object", id(value))


def tensor_key(value: Any, is_buffer: bool) -> Hashable:
    """Equal for what is one tensor: the same object, or the same view of the same memory.

    Args:
        value: what is held.
        is_buffer: whether as a buffer or constant; a parameter is never one with those.
    """
    if not isinstance(value, torch.Tensor) or not address(value):
        return id(value)
    return storage_key(value), value.storage_offset(), tuple(value.shape), value.stride(), value.dtype, is_buffer


def content_key(value: Any) -> Hashable:
    """Equal for small tensors of the same kind with the same bits; anything else is only equal to itself."""
    if not isinstance(value, torch.Tensor) or not address(value) or value.numel() > 1024:
        return id(value)
    data = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    return value.dtype, tuple(value.shape), str(value.device), tuple(data.tolist())


def address(value: torch.Tensor) -> int:
    """Where a tensor's memory starts, or 0 where it has none of its own."""
    if _is_wrapped(value) or value.layout is not torch.strided or value.device.type == "meta":
        return 0
    return value.untyped_storage().data_ptr()


def _is_wrapped(value: torch.Tensor) -> bool:
    """Whether a tensor is of a class that may keep its data somewhere else."""
    if issubclass(type(value), Parameter):
        return type(value.data) is not torch.Tensor
    return type(value) is not torch.Tensor
