"""The state of written models: every kind of tensor, and tensors that share memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.unit.source.checking import write

X = torch.linspace(-1, 1, 8).reshape(2, 4)
TYPES = [
    torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int8, torch.uint8,
    torch.int16, torch.int64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


class Holds(nn.Module):
    """Reads whatever buffer it has."""

    def __init__(self, tensor: torch.Tensor, persistent: bool = True) -> None:
        super().__init__()
        self.register_buffer("held", tensor, persistent=persistent)

    held: torch.Tensor

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, self.held.view(-1)[:0].to(torch.float32) if self.held.is_contiguous() else self.held.t().float()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_tensors_of_every_type(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 2, 3]).to(dtype)
    held = write(tmp_path, Holds(tensor), (X,)).model.get_buffer("held")
    assert (held.dtype, held.view(torch.uint8).tolist()) == (dtype, tensor.view(torch.uint8).tolist())


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)], ids=str)
def test_tensors_without_axes_and_without_items(tmp_path: Path, shape: tuple[int, ...]) -> None:
    assert write(tmp_path, Holds(torch.ones(shape)), (X,)).model.get_buffer("held").shape == shape


def test_nan_and_infinity_keep_their_bits(tmp_path: Path) -> None:
    tensor = torch.tensor([float("nan"), -float("nan"), float("inf"), -0.0])
    held = write(tmp_path, Holds(tensor), (X,)).model.get_buffer("held")
    assert held.view(torch.int32).tolist() == tensor.view(torch.int32).tolist()


def test_buffers_that_the_state_dict_does_not_hold(tmp_path: Path) -> None:
    model = write(tmp_path, Holds(torch.ones(3), persistent=False), (X,)).model
    assert dict(model.state_dict()) == {}
    assert model.get_buffer("held").tolist() == [1, 1, 1]


def test_strides_are_kept(tmp_path: Path) -> None:
    held = write(tmp_path, Holds(torch.arange(12.0).reshape(3, 4).t()), (X,)).model.get_buffer("held")
    assert held.stride() == (1, 4)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.blocks[1].weight = self.blocks[0].weight
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.embed.weight
        self.again = self.blocks[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.again(x))


def test_tied_parameters_and_shared_modules(tmp_path: Path) -> None:
    written = write(tmp_path, Tied(), (torch.tensor([[1, 2]]),))
    assert "self.head.weight = self.embed.weight" in written.text
    assert "self.again = self.blocks[0]" in written.text


class Views(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        whole = torch.arange(6.0)
        self.register_buffer("whole", whole)
        self.register_buffer("part", whole[2:4])

    whole: torch.Tensor
    part: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.whole.add_(1)
        return x.sum() + self.part


def test_tensors_that_share_memory_share_it_afterwards(tmp_path: Path) -> None:
    model = write(tmp_path, Views(), (X,)).model
    model.get_buffer("whole").zero_()
    assert model.get_buffer("part").tolist() == [0, 0]


class Constants(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + torch.tensor([0.5, 1.5, 2.5, 3.5])


def test_constants_follow_the_model(tmp_path: Path) -> None:
    model = write(tmp_path, Constants(), (X,)).model
    assert model.state_dict() == {}
    assert model.to("meta")(X.to("meta")).device.type == "meta"


def test_frozen_parameters_stay_frozen(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].requires_grad_(False)
    write(tmp_path, model, (X,))


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_module("nothing", None)
        self.register_parameter("empty", None)
        self.many = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))])
        self.named = nn.ParameterDict({"a": nn.Parameter(torch.ones(4)), "b": nn.Parameter(torch.ones(4))})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x) + self.many[0] * self.many[1] + self.named["a"]


def test_what_is_never_used_is_there_too(tmp_path: Path) -> None:
    write(tmp_path, Unused(), (X,))
