"""Weight-only quantisation of torchao on an unflattened model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.integration.llama import llama, unflattened

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def test_int8_weights_as_on_the_original() -> None:
    quantization = pytest.importorskip("torchao.quantization", reason="pip install torchao")
    model, args, kwargs = llama()
    nested = unflattened(model, args, kwargs)
    for module in (model, nested):
        quantization.quantize_(module, quantization.Int8WeightOnlyConfig())
    quantised = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    assert len(quantised) == 15
    for name in quantised:
        assert type(nested.get_submodule(name).weight) is type(model.get_submodule(name).weight)
    assert torch.equal(nested(*args, **kwargs).logits, model(*args, **kwargs).logits)
