"""State loaded, saved, cast and moved."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

from tests.support.comparing import (
    assert_same_run,
    buffers,
    capture,
)
from unflatten import unflatten

X = torch.randn(2, 3)


def test_state_dicts_load_both_ways() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn = nn.BatchNorm1d(3)
            self.blocks = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3, bias=False)])
            self.extra = nn.ParameterDict({"g": nn.Parameter(torch.randn(3)), "h": nn.Parameter(torch.randn(3))})
            self.unused = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.bn(x)
            for block in self.blocks:
                x = block(x)
            return x * self.extra["g"]

    program = capture(Net().eval(), (X,))
    for assign in (False, True):
        twin = Net().eval()
        nn.init.uniform_(buffers(twin)["bn.running_mean"])
        nested = unflatten(program, copy_state=True)
        nested.load_state_dict(copy.deepcopy(twin.state_dict()), strict=True, assign=assign)
        assert torch.equal(nested(X), twin(X))
        back = Net().eval()
        back.load_state_dict(nested.state_dict(), strict=True)
        assert torch.equal(back(X), twin(X))


def test_weights_only_files_hold_the_state() -> None:
    program = capture(nn.Linear(3, 3), (X,))
    nested, other = unflatten(program), unflatten(program, copy_state=True)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    file = io.BytesIO()
    torch.save(nested.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(nested(X), other(X))


def test_casting_follows_the_model() -> None:
    class Net(nn.Module):
        k: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.fc, self.bn = nn.Linear(3, 3), nn.BatchNorm1d(3)
            self.register_buffer("k", torch.rand(3), persistent=False)
            self.plain = torch.tensor([1.0, 2.0, 3.0])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.bn(self.fc(x)) * self.k + self.plain

    model = Net().eval()
    nested = unflatten(capture(model, (X,))).double()
    expected = copy.deepcopy(model).double()
    assert_same_run(expected, nested, (X.double(),))


def test_moving_takes_constants_and_factories_along() -> None:
    class Sub(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.arange(3, device=x.device) * torch.tensor([1.0, 0.0, 1.0])

    class Net(nn.Module):
        written: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.fc, self.sub = nn.Linear(3, 3), Sub()
            self.register_buffer("written", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.written.add_(1)
            return self.sub(self.fc(x)).to(torch.float64) + self.written

    nested = unflatten(capture(Net(), (X,))).to("meta")
    result = nested(X.to("meta"))
    assert result.device.type == "meta"
    assert result.shape == (2, 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device to move the module to")
def test_moving_to_cuda_gives_the_same_results() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) + torch.arange(3, device=x.device)

    nested = unflatten(capture(Net(), (X,)))
    expected = nested(X)
    torch.testing.assert_close(nested.cuda()(X.cuda()).cpu(), expected)
