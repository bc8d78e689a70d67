"""Modules of torch.nn are written as the calls of their constructors that make them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import unflatten
from unflatten import source

X = torch.linspace(-1, 1, 8).reshape(2, 4)
IMAGE = torch.ones(1, 1, 5, 5)
SERIES = torch.ones(1, 2, 4)


def text_of(model: nn.Module, *args: Any) -> str:
    return source.text_of(unflatten.export(model, args))


WRITTEN: list[tuple[nn.Module, torch.Tensor, str]] = [
    (nn.RNN(4, 3, nonlinearity="relu", batch_first=True), SERIES, 'RNN(4, 3, batch_first=True, nonlinearity="relu")'),
    (nn.RNN(4, 3), SERIES, "RNN(4, 3)"),
    (nn.GRU(4, 3, 2, bias=False), SERIES, "GRU(4, 3, num_layers=2, bias=False)"),
    (nn.LSTM(4, 3, proj_size=2, bidirectional=True), SERIES, "LSTM(4, 3, bidirectional=True, proj_size=2)"),
    (nn.RNNCell(4, 3, nonlinearity="relu"), X, 'RNNCell(4, 3, nonlinearity="relu")'),
    (nn.Linear(4, 2, bias=False), X, "Linear(4, 2, bias=False)"),
    (nn.Conv2d(1, 2, (3, 3), padding="same", bias=False), IMAGE, 'Conv2d(1, 2, 3, padding="same", bias=False)'),
    (nn.Conv2d(1, 1, (3, 1), stride=(1, 2)), IMAGE, "Conv2d(1, 1, (3, 1), stride=(1, 2))"),
    (nn.MaxPool2d(2), IMAGE, "MaxPool2d(2, stride=2)"),
    (nn.AdaptiveAvgPool2d((2, 2)), IMAGE, "AdaptiveAvgPool2d((2, 2))"),
    (nn.Upsample(scale_factor=(2, 3)), IMAGE, "Upsample(scale_factor=(2.0, 3.0))"),
    (nn.Unflatten(1, (2, 2)), X, "Unflatten(1, (2, 2))"),
    (nn.LayerNorm(4, bias=False), X, "LayerNorm(4, bias=False)"),
    (nn.PReLU(4), X, "PReLU(num_parameters=4)"),
    (nn.Dropout(0.5), X, "Dropout()"),
]


@pytest.mark.filterwarnings("ignore:The tensor attributes .*_flat_weights:UserWarning")
@pytest.mark.parametrize(("layer", "x", "wanted"), WRITTEN)
def test_the_call_makes_the_layer(layer: nn.Module, x: torch.Tensor, wanted: str) -> None:
    assert f"nn.{wanted})" in text_of(nn.Sequential(layer), x)
    made = eval(f"nn.{wanted}", {"nn": nn})  # noqa: S307 - the text is in this file
    assert made.extra_repr() == layer.extra_repr()
    assert {name: each.shape for name, each in made.state_dict().items()} == {
        name: each.shape for name, each in layer.state_dict().items()
    }


def test_a_layer_with_a_setting_that_was_changed() -> None:
    layer = nn.Dropout(0.5)
    layer.inplace = True
    assert "nn.Dropout(inplace=True)" in text_of(nn.Sequential(layer), X)


def test_a_layer_that_holds_more_than_its_class_makes_has_a_class_of_its_own() -> None:
    layer = nn.Linear(4, 4)
    layer.more = nn.Parameter(torch.ones(1))
    text = text_of(nn.Sequential(layer), X)
    assert "class Linear(nn.Module):" in text
    assert "self.more = nn.Parameter(torch.empty(1))" in text


class Emptied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_module("gone", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(x)
        return out


def test_a_child_that_is_none_stays_none() -> None:
    assert '        self.add_module("gone", None)\n' in text_of(Emptied(), X)
