"""Small, randomly initialised models of published architectures, as `transformers` and torch build them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

Call = tuple[nn.Module, dict[str, Any]]

_TOKENS: Final = 64
_TEXT: Final = {"vocab_size": _TOKENS, "hidden_size": 32, "num_attention_heads": 4}
_DEEP: Final = {**_TEXT, "num_hidden_layers": 3, "intermediate_size": 64}
_NO_CACHE: Final = {"use_cache": False}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model of `transformers`.

    Attributes:
        model: its class.
        config: the class of its configuration.
        options: what is set of that.
        inputs: the names of its inputs.
        training: whether it is in training mode.
    """

    model: str
    config: str
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ("input_ids",)
    training: bool = False

    def build(self) -> Call:
        """The model, and a call of it."""
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.options)
        made: nn.Module = getattr(transformers, self.model)(config).train(self.training)
        return made, {name: _input(name) for name in self.inputs}


def _input(name: str) -> torch.Tensor:
    if name == "pixel_values":
        return torch.randn(2, 3, 32, 32)
    if name == "input_features":
        return torch.randn(2, 8, 32)
    return torch.randint(3, _TOKENS, (2, 5 if name.startswith("decoder") else 8))


_SEQUENCES: Final = ("input_ids", "decoder_input_ids")
_CODER: Final = {"vocab_size": _TOKENS, "d_model": 32, "decoder_start_token_id": 1, "use_cache": False}
_WHISPER: Final = {
    **_CODER,
    **{f"{side}_{what}": number for side in ("encoder", "decoder") for what, number in
       (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))},
    "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_RECIPES: Final[Mapping[str, Recipe]] = {
    "Llama": Recipe("LlamaForCausalLM", "LlamaConfig", {**_DEEP, **_NO_CACHE, "num_key_value_heads": 2}),
    "Mixtral": Recipe(
        "MixtralForCausalLM", "MixtralConfig", {**_DEEP, **_NO_CACHE, "num_local_experts": 4, "num_key_value_heads": 2}
    ),
    "Qwen 3": Recipe(
        "Qwen3ForCausalLM", "Qwen3Config", {**_DEEP, **_NO_CACHE, "head_dim": 8, "num_key_value_heads": 2}
    ),
    "GPT-2": Recipe(
        "GPT2LMHeadModel", "GPT2Config", {"vocab_size": _TOKENS, "n_embd": 32, "n_layer": 3, "n_head": 4, **_NO_CACHE}
    ),
    "BERT": Recipe("BertForMaskedLM", "BertConfig", _DEEP),
    "DistilBERT": Recipe(
        "DistilBertModel", "DistilBertConfig", {"vocab_size": _TOKENS, "dim": 32, "n_layers": 3, "n_heads": 4}
    ),
    "ALBERT": Recipe("AlbertModel", "AlbertConfig", {**_DEEP, "embedding_size": 16}),
    "ELECTRA": Recipe("ElectraModel", "ElectraConfig", {**_DEEP, "embedding_size": 16}),
    "T5": Recipe(
        "T5ForConditionalGeneration", "T5Config", {**_CODER, "num_layers": 2, "num_heads": 4, "d_kv": 8}, _SEQUENCES
    ),
    "BART": Recipe(
        "BartModel", "BartConfig", {key: _WHISPER[key] for key in _WHISPER if "_ids" not in key}, _SEQUENCES
    ),
    "Whisper": Recipe(
        "WhisperForConditionalGeneration", "WhisperConfig", _WHISPER, ("input_features", "decoder_input_ids")
    ),
    "ViT": Recipe(
        "ViTForImageClassification", "ViTConfig", {**_DEEP, "image_size": 32, "patch_size": 8}, ("pixel_values",)
    ),
    "Swin": Recipe(
        "SwinForImageClassification",
        "SwinConfig",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
        ("pixel_values",),
    ),
    "ConvNeXt": Recipe(
        "ConvNextForImageClassification",
        "ConvNextConfig",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]},
        ("pixel_values",),
    ),
    "ResNet": Recipe(
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1], "layer_type": "basic"},
        ("pixel_values",),
    ),
    "ResNet, training": Recipe(
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1], "layer_type": "basic"},
        ("pixel_values",),
        training=True,
    ),
    "MobileNet V2": Recipe(
        "MobileNetV2ForImageClassification", "MobileNetV2Config", {"depth_multiplier": 0.25}, ("pixel_values",)
    ),
}


class Tagger(nn.Module):
    """Embedding, a bidirectional LSTM of two layers, and a tag for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(_TOKENS, 16)
        self.rnn = nn.LSTM(16, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(32, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape `(batch, length, 5)`."""
        tags: torch.Tensor = self.tags(self.rnn(self.embed(tokens))[0])
        return tags


class Siamese(nn.Module):
    """One tower called twice, and the distance between what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(7200, 16))

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """One distance for each pair."""
        return (self.tower(left) - self.tower(right)).norm(dim=-1)


def _tagger() -> Call:
    return Tagger().eval(), {"tokens": _input("tokens")}


def _siamese() -> Call:
    return Siamese().eval(), {"left": _input("pixel_values"), "right": _input("pixel_values")}


def _transformer() -> Call:
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True).eval()
    return model, {"src": torch.randn(2, 8, 32), "tgt": torch.randn(2, 5, 32)}


ARCHITECTURES: Final[Mapping[str, Callable[[], Call]]] = {
    **{name: recipe.build for name, recipe in _RECIPES.items()},
    "nn.Transformer": _transformer,
    "LSTM tagger": _tagger,
    "Siamese": _siamese,
}
