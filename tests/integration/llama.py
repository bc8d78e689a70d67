"""A small Llama, as transformers builds it, with a call of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import unflatten


def llama() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The model in eval mode, and the arguments of a call: two sequences of six tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
    tokens = torch.randint(0, 64, (2, 6), generator=torch.Generator().manual_seed(1))
    return LlamaForCausalLM(config).eval(), (tokens,), {"use_cache": False}


def unflattened(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> unflatten.UnflattenedModule:
    """The model, exported and given its hierarchy back; its weights are its own."""
    return unflatten.unflatten(unflatten.export(model, args, kwargs), copy_state=True)
