"""Graphs of random models compute what the models compute."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from nir_bridge import from_nir, to_nir
from tests.properties.nir_common import often


class Sum(nn.Module):
    """The sum of some children's outputs, and of the input where it is to be."""

    def __init__(self, children: list[nn.Module], beside: bool) -> None:
        super().__init__()
        self.parts = nn.ModuleList(children)
        self.beside = beside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = sum((part(x) for part in self.parts), torch.zeros(()))
        return total + x if self.beside else total * 0.5 - 1


LAYERS = st.builds(
    lambda kind: kind(),
    st.sampled_from(
        [
            lambda: nn.Linear(3, 3),
            lambda: nn.Linear(3, 3, bias=False),
            nn.Dropout,
            lambda: nn.BatchNorm1d(3),
            nn.Identity,
        ]
    ),
)
MODELS = st.recursive(
    LAYERS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: nn.Sequential(*parts)),
        st.builds(Sum, st.lists(inner, min_size=1, max_size=3), st.booleans()),
    ),
    max_leaves=6,
)


@given(MODELS, st.booleans())
@often(1)
def test_models(model: nn.Module, flatten: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), model).eval().double()
    x = torch.linspace(-1, 1, 6).reshape(2, 3).double()
    net = from_nir(to_nir(model, flatten=flatten), dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(net(x)[0], model(x))
