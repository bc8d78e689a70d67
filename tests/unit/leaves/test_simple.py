"""Modules of one value: linear maps, activations, norms, dropout, embeddings, shaping."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.unit.leaves.checking import assert_comes_back

X = torch.randn(4, 6, 5, 7)
ACTIVATIONS: list[nn.Module] = [
    *(
        cls(inplace=inplace)
        for inplace in (False, True)
        for cls in (
            nn.ReLU, nn.ReLU6, nn.SiLU, nn.Mish, nn.SELU, nn.ELU, nn.CELU, nn.LeakyReLU, nn.RReLU, nn.Hardtanh,
            nn.Hardsigmoid, nn.Hardswish,
        )
    ),
    nn.ELU(alpha=2),
    nn.LeakyReLU(0.2),
    nn.Hardtanh(-2, 3),
    nn.Threshold(1, 2.0),
    nn.Threshold(0.1, 20, inplace=True),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.GLU(1),
    nn.Sigmoid(),
    nn.LogSigmoid(),
    nn.Tanh(),
    nn.Tanhshrink(),
    nn.Softplus(2, 10),
    nn.Softshrink(0.3),
    nn.Hardshrink(0.3),
    nn.Softsign(),
    nn.PReLU(),
    nn.PReLU(6),
    nn.Softmax(dim=-1),
    nn.Softmax(dim=1),
    nn.LogSoftmax(dim=1),
    nn.Softmin(dim=1),
    nn.Softmax2d(),
]  # fmt: skip


@pytest.mark.parametrize("module", ACTIVATIONS, ids=str)
def test_activations(module: nn.Module) -> None:
    assert_comes_back(module, (X,))


@pytest.mark.parametrize("train", [False, True])
def test_a_randomised_activation_in_either_mode(train: bool) -> None:
    nested = assert_comes_back(nn.RReLU(0.1, 0.2), (X,), train=train)
    assert nested.inner.training is train


@pytest.mark.parametrize("bias", [False, True])
def test_linear_maps(bias: bool) -> None:
    assert_comes_back(nn.Linear(7, 3, bias=bias), (X,))
    assert_comes_back(nn.modules.linear.NonDynamicallyQuantizableLinear(7, 3, bias=bias), (X,))
    assert_comes_back(nn.Bilinear(3, 4, 2, bias=bias), (torch.randn(5, 3), torch.randn(5, 4)))


NORMS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.LayerNorm((5, 7)), (4, 6, 5, 7)),
    (nn.LayerNorm(7, eps=0.1, bias=False), (4, 6, 5, 7)),
    (nn.LayerNorm(7, elementwise_affine=False), (4, 6, 5, 7)),
    (nn.RMSNorm(7), (4, 6, 5, 7)),
    (nn.RMSNorm(7, eps=0.1, elementwise_affine=False), (4, 6, 5, 7)),
    (nn.GroupNorm(3, 6, eps=0.1), (4, 6, 5, 7)),
    (nn.GroupNorm(3, 6, affine=False), (4, 6, 5, 7)),
    (nn.GroupNorm(3, 6, bias=False), (4, 6, 5, 7)),
    (nn.LocalResponseNorm(3, alpha=0.1, beta=0.5, k=2.0), (4, 6, 5)),
    (nn.LocalResponseNorm(2), (4, 6, 5, 7)),
]
BATCHES: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.BatchNorm1d(6), (4, 6)),
    (nn.BatchNorm1d(6, momentum=0.3, eps=0.1), (4, 6, 5)),
    (nn.BatchNorm2d(6, affine=False), (4, 6, 5, 7)),
    (nn.BatchNorm2d(6, track_running_stats=False), (4, 6, 5, 7)),
    (nn.BatchNorm3d(6, bias=False), (2, 6, 4, 5, 6)),
    (nn.InstanceNorm1d(6), (4, 6, 5)),
    (nn.InstanceNorm2d(6, affine=True), (4, 6, 5, 7)),
    (nn.InstanceNorm2d(6, track_running_stats=True), (4, 6, 5, 7)),
    (nn.InstanceNorm3d(6, affine=True, eps=0.1), (2, 6, 4, 5, 6)),
]


def named(value: Any) -> str:
    return str(value).partition("\n")[0]


@pytest.mark.parametrize(("module", "shape"), NORMS, ids=named)
def test_norms(module: nn.Module, shape: tuple[int, ...]) -> None:
    assert_comes_back(module, (torch.randn(shape),))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("module", "shape"), BATCHES, ids=named)
def test_norms_over_batches_in_either_mode(module: nn.Module, shape: tuple[int, ...], train: bool) -> None:
    assert_comes_back(module, (torch.randn(shape),), train=train)


def test_a_norm_without_a_momentum() -> None:
    assert_comes_back(nn.BatchNorm1d(6, momentum=None), (torch.randn(4, 6),), train=False)
    assert_comes_back(nn.InstanceNorm2d(6), (torch.randn(6, 4, 5),), dynamic=False)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Dropout(0.25), (4, 6)),
        (nn.Dropout(0.25, inplace=True), (4, 6)),
        (nn.Dropout1d(0.25), (4, 6, 5)),
        (nn.Dropout1d(0.25), (6, 5)),
        (nn.Dropout2d(0.25, inplace=True), (4, 6, 5, 7)),
        (nn.Dropout3d(0.25), (2, 3, 4, 5, 6)),
        (nn.AlphaDropout(0.25), (4, 6)),
        (nn.FeatureAlphaDropout(0.25), (4, 6, 5)),
    ],
    ids=named,
)
def test_dropout_in_either_mode(module: nn.Module, shape: tuple[int, ...], train: bool) -> None:
    nested = assert_comes_back(module, (torch.randn(shape),), train=train)
    assert nested.inner.training is train


@pytest.mark.parametrize(
    "options",
    [{}, {"padding_idx": 2}, {"padding_idx": 0, "sparse": True}, {"scale_grad_by_freq": True}, {"max_norm": 1.0}],
    ids=str,
)
def test_embeddings(options: dict[str, Any]) -> None:
    ids = torch.randint(0, 5, (4, 3))
    assert_comes_back(nn.Embedding(5, 3, **options), (ids,))
    assert_comes_back(nn.EmbeddingBag(5, 3, mode="sum", **options), (ids,))


def test_bags_of_all_kinds() -> None:
    flat = torch.randint(0, 5, (9,))
    assert_comes_back(nn.EmbeddingBag(5, 3, mode="max"), (torch.randint(0, 5, (4, 3)),))
    bags = nn.EmbeddingBag(5, 3, mode="sum", include_last_offset=True)
    assert_comes_back(bags, (flat, torch.tensor([0, 3, 6, 9])), dynamic=False)
    weighted = nn.EmbeddingBag(5, 3, mode="sum")
    assert_comes_back(weighted, (flat, torch.tensor([0, 3, 6]), torch.randn(9)), dynamic=False)
    assert_comes_back(
        weighted,
        (torch.randint(0, 5, (4, 3)), torch.randn(4, 3)),
        lambda module, ids, weights: module(ids, per_sample_weights=weights),
        dynamic=False,
    )


SHAPING: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Flatten(), (4, 6, 5)),
    (nn.Flatten(0, 1), (4, 6, 5)),
    (nn.Unflatten(1, (2, 3)), (4, 6, 5)),
    (nn.PixelShuffle(2), (2, 8, 4, 4)),
    (nn.PixelUnshuffle(2), (2, 8, 4, 4)),
    (nn.ChannelShuffle(2), (2, 8, 4, 4)),
    (nn.Unfold(2), (2, 3, 8, 8)),
    (nn.Unfold((2, 3), padding=1, stride=2), (2, 3, 8, 8)),
    (nn.Fold((4, 5), 2), (3, 12, 12)),
    (nn.Upsample(scale_factor=2), (2, 3, 8)),
    (nn.Upsample(size=(10, 12)), (2, 3, 8, 8)),
    (nn.Upsample(scale_factor=(2.0, 3.0), mode="nearest-exact"), (2, 3, 8, 8)),
    (nn.Upsample(scale_factor=2, mode="linear"), (2, 3, 8)),
    (nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), (2, 3, 8, 8)),
    (nn.Upsample(scale_factor=2, mode="bicubic"), (2, 3, 8, 8)),
    (nn.Upsample(size=9, mode="trilinear"), (2, 3, 4, 4, 4)),
    (nn.UpsamplingNearest2d(scale_factor=2), (2, 3, 8, 8)),
    (nn.UpsamplingBilinear2d(size=5), (2, 3, 8, 8)),
]


@pytest.mark.parametrize(("module", "shape"), SHAPING, ids=named)
def test_shaping(module: nn.Module, shape: tuple[int, ...]) -> None:
    assert_comes_back(module, (torch.randn(shape),))
