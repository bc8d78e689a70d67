"""Modules that slide windows: convolutions, pooling, padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.unit.leaves.checking import assert_comes_back

SHAPES = {1: (2, 4, 9), 2: (2, 4, 9, 9), 3: (2, 4, 6, 6, 6)}


def in_dimensions(name: str, dimensions: int) -> Any:
    return getattr(nn, name.replace("Nd", f"{dimensions}d"))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False, "stride": 2, "padding": 1},
        {"padding": "same"},
        {"groups": 2, "dilation": 2},
        {"padding": 1, "padding_mode": "reflect"},
        {"padding": 2, "padding_mode": "circular"},
    ],
    ids=str,
)
def test_convolutions(dimensions: int, options: dict[str, Any]) -> None:
    module = in_dimensions("ConvNd", dimensions)(4, 6, 3, **options)
    assert_comes_back(module, (torch.randn(SHAPES[dimensions]),))


def test_a_convolution_padded_unevenly_beforehand() -> None:
    module = nn.Conv2d(4, 6, (2, 4), padding="same", padding_mode="replicate")
    assert_comes_back(module, (torch.randn(2, 4, 9, 9),))
    assert_comes_back(nn.Conv2d(4, 6, 3), (torch.randn(4, 9, 9),), dynamic=False)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False, "stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": 2}],
    ids=str,
)
def test_transposed_convolutions(dimensions: int, options: dict[str, Any]) -> None:
    module = in_dimensions("ConvTransposeNd", dimensions)(4, 6, 3, **options)
    assert_comes_back(module, (torch.randn(SHAPES[dimensions]),))


POOLS: list[tuple[str, dict[str, Any]]] = [
    ("MaxPoolNd", {"kernel_size": 2}),
    ("MaxPoolNd", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ("MaxPoolNd", {"kernel_size": 3, "dilation": 2, "return_indices": True}),
    ("AvgPoolNd", {"kernel_size": 2}),
    ("AvgPoolNd", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
    ("AdaptiveAvgPoolNd", {"output_size": 2}),
    ("AdaptiveMaxPoolNd", {"output_size": 2}),
    ("AdaptiveMaxPoolNd", {"output_size": 2, "return_indices": True}),
    ("LPPoolNd", {"norm_type": 2, "kernel_size": 2}),
    ("LPPoolNd", {"norm_type": 1.5, "kernel_size": 3, "stride": 2}),
]


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize(("name", "options"), POOLS, ids=str)
def test_pooling(name: str, options: dict[str, Any], dimensions: int) -> None:
    assert_comes_back(in_dimensions(name, dimensions)(**options), (torch.randn(SHAPES[dimensions]),))


def test_pooling_in_two_dimensions_only() -> None:
    assert_comes_back(nn.AvgPool2d((2, 3), divisor_override=3), (torch.randn(2, 4, 9, 9),))
    assert_comes_back(nn.AdaptiveAvgPool2d((2, 3)), (torch.randn(2, 4, 9, 9),))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("name", ["ZeroPadNd", "ReflectionPadNd", "ReplicationPadNd", "CircularPadNd", "ConstantPadNd"])
def test_padding(name: str, dimensions: int) -> None:
    value = {"value": 2.5} if name == "ConstantPadNd" else {}
    module = in_dimensions(name, dimensions)(tuple(range(1, 2 * dimensions + 1))[: 2 * dimensions], **value)
    shape = (2, 3, *(9,) * dimensions)
    assert_comes_back(module, (torch.randn(shape),))
