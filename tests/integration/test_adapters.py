"""Adapters of peft on an unflattened model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.integration.llama import llama, unflattened

peft = pytest.importorskip("peft", reason="pip install peft")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def adapted(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj", "down_proj"], r=4, init_lora_weights=False)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    found: nn.Module = peft.inject_adapter_in_model(config, model)
    return found


def trained(model: nn.Module, tokens: torch.Tensor) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss after one step of gradient descent on the adapters, and the adapters."""
    adapters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    optimiser = torch.optim.SGD(adapters.values(), lr=0.1)
    logits = model(tokens, use_cache=False).logits
    nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    optimiser.step()
    logits = model(tokens, use_cache=False).logits
    loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    return loss.item(), {name: adapter.detach() for name, adapter in adapters.items()}


def test_lora_trains_as_on_the_original() -> None:
    model, (tokens,), kwargs = llama()
    nested = adapted(unflattened(model, (tokens,), kwargs))
    loss, adapters = trained(nested, tokens)
    expected, wanted = trained(adapted(model), tokens)
    assert loss == expected
    assert list(adapters) == list(wanted)
    assert len(adapters) == 12
    for name, adapter in adapters.items():
        assert torch.equal(adapter, wanted[name]), name
