"""Modules of several inputs or outputs: recurrent layers, attention, distances, losses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.comparing import differences
from tests.unit.leaves.checking import assert_comes_back
from unflatten import info

R = torch.randn
X = torch.randn(5, 6, 3)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    "module",
    [
        nn.LSTM(3, 4),
        nn.LSTM(3, 4, num_layers=2, dropout=0.5, batch_first=True),
        nn.LSTM(3, 4, bidirectional=True, bias=False, batch_first=True),
        nn.LSTM(3, 4, proj_size=2),
        nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True),
        nn.RNN(3, 4),
        nn.RNN(3, 4, nonlinearity="relu", batch_first=True),
        nn.LSTMCell(3, 4),
        nn.GRUCell(3, 4, bias=False),
        nn.RNNCell(3, 4, nonlinearity="relu"),
    ],
    ids=str,
)
def test_recurrent_layers(module: nn.Module, train: bool) -> None:
    x = X[:, 0] if isinstance(module, nn.RNNCellBase) else X
    # Export fixes the length of a series, which is the first dimension here.
    nested = assert_comes_back(module, (x,), train=train, dynamic=getattr(module, "batch_first", True))
    copied = copy.deepcopy(nested)
    torch.manual_seed(0)
    expected = nested(x)
    torch.manual_seed(0)
    assert not differences(expected, copied(x))


def test_recurrent_layers_with_a_state() -> None:
    state = (R(1, 6, 4), R(1, 6, 4))
    nested = assert_comes_back(nn.LSTM(3, 4), (X, *state), lambda m, x, h, c: m(x, (h, c))[1][0], dynamic=False)
    assert "[1][0]" in info(nested).code
    assert_comes_back(nn.GRUCell(3, 4), (R(5, 3), R(5, 4)))
    assert_comes_back(nn.LSTM(3, 4), (X[0],), dynamic=False)


def self_attention(module: nn.Module, x: torch.Tensor, *masks: torch.Tensor, **options: Any) -> Any:
    return module(x, x, x, *masks, **options)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_attention(batch_first: bool, train: bool) -> None:
    x, causal, padding = R(5, 5, 8), torch.ones(5, 5).triu(1) > 0, torch.zeros(5, 5) > 1
    whole = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    assert_comes_back(whole, (x,), self_attention, train=train)
    assert_comes_back(whole, (x,), lambda m, x: m(x, x, x, need_weights=False)[0], train=train)
    assert_comes_back(
        nn.MultiheadAttention(8, 2, kdim=3, vdim=4, batch_first=batch_first),
        (R(5, 5, 8), R(5, 5, 3), R(5, 5, 4)),
        train=train,
        dynamic=False,
    )
    assert_comes_back(
        nn.MultiheadAttention(8, 2, bias=False, add_zero_attn=True, batch_first=batch_first),
        (x, R(5, 5, 8)),
        lambda m, q, k: m(q, k, k, average_attn_weights=False),
        train=train,
        dynamic=False,
    )
    assert_comes_back(
        nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=batch_first),
        (x, padding, causal),
        lambda m, x, padding, mask: m(x, x, x, key_padding_mask=padding, attn_mask=mask),
        train=train,
        dynamic=False,
    )


def test_attention_with_dropout_comes_back_from_train_mode() -> None:
    module = nn.MultiheadAttention(8, 2, dropout=0.25)
    nested = assert_comes_back(module, (R(5, 2, 8),), lambda m, x: m(x, x, x, need_weights=False)[0])
    assert nested.inner.dropout == 0.25
    assert info(nested).code.endswith(", need_weights=False)[0]")


def test_distances() -> None:
    assert_comes_back(nn.CosineSimilarity(dim=2, eps=0.1), (X, X.clone()))
    assert_comes_back(nn.PairwiseDistance(p=1.0, keepdim=True), (X, X.clone()))


A, B, T = R(4, 3), torch.rand(4, 3), torch.tensor([1, 0, 2, 1])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(reduction: str) -> None:
    for cls in (
        nn.L1Loss, nn.MSELoss, nn.HuberLoss, nn.SmoothL1Loss, nn.SoftMarginLoss, nn.HingeEmbeddingLoss,
        nn.PoissonNLLLoss, nn.BCEWithLogitsLoss, nn.MultiLabelSoftMarginLoss,
    ):  # fmt: skip
        assert_comes_back(cls(reduction=reduction), (A, B), dynamic=False)
    for loss in (nn.CrossEntropyLoss, nn.NLLLoss, nn.MultiMarginLoss):
        assert_comes_back(loss(reduction=reduction), (A, T))
    weighted = nn.CrossEntropyLoss(torch.rand(3), reduction=reduction, label_smoothing=0.1, ignore_index=1)
    assert_comes_back(weighted, (A, T))
    assert_comes_back(nn.BCEWithLogitsLoss(pos_weight=torch.rand(3), reduction=reduction), (A, B))
    assert_comes_back(nn.BCELoss(reduction=reduction), (torch.rand(4, 3), B))
    assert_comes_back(nn.MultiLabelMarginLoss(reduction=reduction), (A, torch.tensor([[1, 0, -1]] * 4)))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_three(reduction: str) -> None:
    ones = torch.ones(4)
    assert_comes_back(nn.CosineEmbeddingLoss(0.5, reduction=reduction), (A, R(4, 3), ones))
    assert_comes_back(nn.MarginRankingLoss(0.5, reduction=reduction), (R(4), R(4), ones))
    assert_comes_back(nn.TripletMarginLoss(0.5, swap=True, reduction=reduction), (A, R(4, 3), R(4, 3)))


def test_a_loss_of_one_value_twice_and_one_by_batches() -> None:
    assert_comes_back(nn.MSELoss(), (A,), lambda m, x: m(x, x))
    assert_comes_back(nn.KLDivLoss(reduction="batchmean"), (A, B))
