"""The state of a model as a file: every tensor once, with what a plain tensor does not tell."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unflatten.errors import SourceError
from unflatten.flat.tensors import storage_key
from unflatten.source.reading import Reading, at_path
from unflatten.source.tensors import constants_of

_PLAIN = (torch.Tensor, nn.Parameter, nn.Buffer)
_NATIVE = frozenset(
    {
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2, torch.uint64, torch.uint32, torch.uint16,
        torch.complex64,
    }
)  # fmt: skip


def save_state(reading: Reading, file: Path) -> None:
    """Writes the tensors of a tree into a safetensors file.

    Tensors that share memory, are not contiguous, or are of a type that the format does not have, are stored as the
    memory under them, and how they lie in it is in the file's metadata.

    Raises:
        SourceError: safetensors is not installed, or a tensor is not a plain one.
    """
    save_file = safetensors().save_file
    held: dict[str, torch.Tensor] = {}
    layout: dict[str, Any] = {}
    memory: dict[Any, list[str]] = {}
    tensors = {
        _name(owner.names, name): _tensor(reading, owner.names, name) for owner, name in reading.tensors.values()
    }
    for name, tensor in tensors.items():
        key = storage_key(tensor)
        memory.setdefault(name if key is None else key, []).append(name)
    for names in memory.values():
        first = tensors[names[0]]
        if len(names) == 1 and first.is_contiguous() and first.dtype in _NATIVE and not first.is_conj():
            held[names[0]] = first.detach()
            continue
        held[names[0]] = _memory(first) if len(names) > 1 or not _is_odd(first) else _memory(first.resolve_conj())
        for name in names:
            layout[name] = {**_layout(tensors[name]), "memory": names[0]}
    frozen = [name for name, tensor in tensors.items() if isinstance(tensor, nn.Parameter) and not tensor.requires_grad]
    marks = {"layout": layout, "frozen": frozen}
    metadata = {key: json.dumps(value) for key, value in marks.items() if value}
    save_file(dict(held), str(file), metadata={"format": "pt", **metadata})


def safetensors() -> Any:
    """The module `safetensors.torch`.

    Raises:
        SourceError: it is not installed.
    """
    try:
        return importlib.import_module("safetensors.torch")
    except ImportError as error:
        raise SourceError(
            "written packages keep their tensors in a safetensors file: pip install 'torch-unflatten[cli]', or pip "
            "install safetensors"
        ) from error


def _name(names: tuple[str, ...], name: str) -> str:
    """A key that no other tensor has: the name in the state dict, quoted where a part of it has a dot in it."""
    parts = (*names, name)
    return ".".join(parts) if not any("." in part for part in parts) else json.dumps(parts)


def _tensor(reading: Reading, names: tuple[str, ...], name: str) -> torch.Tensor:
    module = at_path(reading.root, names)
    tables: tuple[Mapping[str, Any], ...] = (module._parameters, module._buffers, constants_of(module))
    tensor: torch.Tensor = next(table[name] for table in tables if table.get(name) is not None)
    if type(tensor) not in _PLAIN or tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise SourceError(
            f"{_name(names, name)} is a {type(tensor).__name__} of layout {tensor.layout} on {tensor.device}; a "
            "safetensors file holds only plain dense tensors with memory"
        )
    return tensor


def _is_odd(tensor: torch.Tensor) -> bool:
    return tensor.is_conj() or tensor.is_neg()


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """All of the memory under a tensor, as bytes."""
    data = tensor.detach()
    return torch.empty(0, dtype=torch.uint8, device=data.device).set_(data.untyped_storage())


def _layout(tensor: torch.Tensor) -> dict[str, Any]:
    plain = tensor.resolve_conj().resolve_neg() if _is_odd(tensor) else tensor
    return {
        "dtype": str(plain.dtype).removeprefix("torch."),
        "offset": plain.storage_offset(),
        "shape": list(plain.shape),
        "stride": list(plain.stride()),
    }
