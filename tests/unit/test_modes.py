"""`train()` and `eval()` take effect or say why they can't."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.comparing import assert_same_run, capture, differences
from unflatten import unflatten
from unflatten.errors import ModeError

X = torch.randn(4, 3)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
        self.bn = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(self.body(x))


@pytest.mark.parametrize("train", [False, True])
def test_the_other_mode_is_refused_and_nothing_changes(train: bool) -> None:
    nested = unflatten(capture(Net().train(train), (X,)), native_leaves=False)
    assert nested.training is train
    assert nested.train(train) is nested
    with pytest.raises(ModeError, match=r"batch_norm in bn|dropout in body"):
        nested.train(not train)
    assert all(module.training is train for module in nested.modules())


def test_the_error_names_every_operator_and_what_to_do() -> None:
    nested = unflatten(capture(Net().eval(), (X,)), native_leaves=False)
    with pytest.raises(ModeError) as error:
        nested.train()
    for words in ("dropout in body.1", "batch_norm in bn", "model.train()"):
        assert words in str(error.value)


def test_submodules_that_do_not_depend_on_the_mode_can_be_switched() -> None:
    nested = unflatten(capture(Net().eval(), (X,)))
    linear = nested.body.get_submodule("0")
    assert isinstance(linear, nn.Module)
    assert linear.train().training
    assert not nested.body.training


def test_programs_that_do_not_depend_on_the_mode_can_be_switched() -> None:
    nested = unflatten(capture(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), (X,)))
    assert nested.eval().training is False
    assert nested.train().training is True


@pytest.mark.parametrize("train", [False, True])
def test_decomposed_normalisation_knows_its_mode_too(train: bool) -> None:
    nested = unflatten(capture(Net().train(train), (X,)).run_decompositions())
    with pytest.raises(ModeError):
        nested.train(not train)


@pytest.mark.parametrize("train", [False, True])
def test_genuine_modules_follow_the_mode(train: bool) -> None:
    model = Net().train(train)
    nested = unflatten(capture(model, (X,)))
    assert all(module.training is train for module in nested.modules())
    nested.train(not train)
    assert all(module.training is not train for module in nested.modules())
    assert_same_run(model.train(not train), nested, (X,))


def test_a_mode_that_is_written_in_generated_code_still_blocks() -> None:
    class Own(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(x, 0.5, self.training)

    nested = unflatten(capture(nn.Sequential(nn.Dropout(0.5), Own()).eval(), (X,)))
    with pytest.raises(ModeError, match=r"dropout_1 in 1"):
        nested.train()


def test_statistics_that_train_mode_would_write_are_not_the_programs() -> None:
    program = torch.export.export(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval(), (X,))
    before = {name: value.clone() for name, value in program.state_dict.items()}
    nested = unflatten(program)
    for name, parameter in nested.named_parameters():
        assert parameter is program.state_dict[name]
    nested.train()(X)
    assert not differences(before, dict(program.state_dict))
    assert nested.get_buffer("1.num_batches_tracked") == 1
