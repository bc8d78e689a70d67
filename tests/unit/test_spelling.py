"""Code spells an operator only in ways that reach that very operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import export

from tests.support.comparing import assert_same_run
from tools.spell_operators import PREFIX, UNARY, all_alike, collect, spellings
from tools.spell_operators import SIGNS as FUNCTIONS
from unflatten import info, unflatten
from unflatten.code.spelling_table import SIGNS, SPELLINGS

PACKETS = 150
"""How many of torch's own operator tests are tried: all take minutes."""


@pytest.fixture(scope="module")
def samples() -> dict[str, tuple[Any, list[Any]]]:
    found = collect(1, every=4)
    return {str(overload).removeprefix("aten."): (overload, given) for overload, given in found.items()}


def test_spellings_dispatch_to_the_overload_that_they_stand_for(samples: dict[str, tuple[Any, list[Any]]]) -> None:
    tried = {name: dict(spellings(samples[name][0])) for name in SPELLINGS if name in samples}
    assert len(tried) > PACKETS
    wrong = [
        name for name, ways in tried.items() if not all_alike(samples[name][0], ways[SPELLINGS[name]], samples[name][1])
    ]
    assert not wrong


def test_signs_dispatch_to_the_overload_that_they_stand_for(samples: dict[str, tuple[Any, list[Any]]]) -> None:
    tried = [name for name in SIGNS if name in samples]
    assert len(tried) > 10
    for name in tried:
        overload, given = samples[name]
        count = 1 if name in PREFIX else 2
        function = UNARY[SIGNS[name]] if name in PREFIX else FUNCTIONS[SIGNS[name]]
        assert all_alike(
            overload, function, [(args, {}) for args, kwargs in given if len(args) == count and not kwargs]
        )


class Spelled(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        half = x.shape[1] // 2
        a = -(x + y) * 2 - x / (y - 3) ** 2
        b = (x > y) & ~(x == 0) | (y <= 1)
        c = torch.softmax(x @ y.t(), -1)[:, None, 1:]
        d = nn.functional.gelu(x[..., :half].contiguous()).view(-1)
        d = torch.einsum("i,j->j", d, x.T.mT[0])
        return a, b, c, d, x.clamp(min=0, max=1).sum((0, 1), keepdim=True)


def test_code_reads_like_a_person_wrote_it() -> None:
    args = (torch.randn(5, 4), torch.randn(5, 4))
    nested = unflatten(export(Spelled(), args))
    code = info(nested).code
    for text in (
        "-(x + y) * 2",
        "(y - 3) ** 2",
        "(x > y) & ~(x == 0) | (y <= 1)",
        "x.T.mT[0]",
        "x.clamp(0, 1)",
        "torch.softmax(x @ y.t(), -1)",
        "F.gelu(",
    ):
        assert text in code
    assert "torch.ops" not in code
    assert_same_run(Spelled(), nested, args)
