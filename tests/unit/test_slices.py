"""Indexing along sizes that vary: what is written is what is traced again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.export import Dim

from unflatten import info, unflatten
from unflatten.testing import assert_reexport_fixpoint, assert_same_outputs

X = torch.arange(24.0).view(2, 3, 4)


class Indexes(nn.Module):
    def __init__(self, how: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.how(x) * 2


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (lambda x: x[:, 2:], "x[:, 2:] * 2"),
        (lambda x: x[:, :, 1], "x[:, :, 1] * 2"),
        (lambda x: x[:, :, 1:3], "x[:, :, 1:3] * 2"),
        (lambda x: x[1:, :, 1:3], "x[1:][:, :, 1:3] * 2"),
        (lambda x: x[:, 1:, ::2], "x[:, 1:][:, :, ::2] * 2"),
        (lambda x: x[..., 1:], "x[:, :, 1:] * 2"),
    ],
)
@pytest.mark.parametrize("dynamic", [{}, {0: Dim.AUTO}, {0: Dim.AUTO, 1: Dim.AUTO}])
def test_indices(how: Callable[[torch.Tensor], torch.Tensor], text: str, dynamic: dict[int, object]) -> None:
    model = Indexes(how)
    nested = unflatten(torch.export.export(model, (X,), dynamic_shapes={"x": dynamic or None}))
    assert info(nested).code.splitlines()[1].strip() == f"return {text}"
    assert_same_outputs(model, nested, (X,))
    assert_reexport_fixpoint(nested, (X,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO} if dynamic else None,))


def test_slices_of_several_tensors() -> None:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = y.sin()
            x = x.clone()
            x[:, :2].add_(z[:, 2:])
            return x[:, 1:] * z[:, :3] + x[:, 0:1]

    args, shapes = (torch.ones(3, 4), torch.ones(3, 4)), ({0: Dim.AUTO}, {0: Dim.AUTO})
    nested = unflatten(torch.export.export(Adds(), args, dynamic_shapes=shapes))
    assert_same_outputs(Adds(), nested, args)
    assert_reexport_fixpoint(nested, args, dynamic_shapes=shapes)
