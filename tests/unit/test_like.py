"""`unflatten(program, like=model)`: what is taken from the live model, and models that are not like it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unflatten import export, unflatten
from unflatten.errors import UnlikeError

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Holder(nn.Module):
    """A module that knows its children by other names, too."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.never = nn.Linear(4, 4), nn.ReLU()
        self.listed, self.named, self.both = [self.fc], {"fc": self.fc, "size": 4}, (self.fc, self.never)
        self.offset = torch.ones(4)
        object.__setattr__(self, "hidden", self.fc)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(x) + self.offset
        return out


def test_attributes_that_are_modules_lead_to_those_of_the_new_tree() -> None:
    model = Holder()
    made = unflatten(export(model, (X,)), like=model)
    assert isinstance(made, Holder)
    assert made.fc is not model.fc
    assert made.listed == [made.fc]
    assert made.named == {"fc": made.fc, "size": 4}
    assert made.both == (made.fc, made.never)
    assert vars(made)["hidden"] is made.fc
    assert torch.equal(made.offset, model.offset)
    assert torch.equal(made(X), model(X))


def test_models_that_lack_what_the_program_has() -> None:
    program = export(nn.Sequential(nn.Linear(4, 4)), (X,))
    with pytest.raises(
        UnlikeError, match=r"a Sequential that lacks .*\n  - parameter '0\.weight'\n  - parameter '0\.bias'"
    ):
        unflatten(program, like=nn.Sequential(nn.ReLU()))
    with pytest.raises(UnlikeError, match=r"a ReLU that lacks .*\n  - module '0'\nGive the model that was exported"):
        unflatten(program, like=nn.ReLU())
