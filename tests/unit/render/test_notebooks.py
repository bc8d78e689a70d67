"""What notebooks show, and that it takes no name away from a model."""

from __future__ import annotations

import copy
import pickle
import re
import shutil

import pytest
import torch
from torch import Tensor, fx, nn

from tests.unit.render import models
from unflatten import GraphView, info, unflatten


def test_modules_views_and_infos_have_a_tree() -> None:
    nested = unflatten(models.program())
    found = nested._repr_html_()
    assert found == info(nested)._repr_html_()
    assert "<summary>Net " in (GraphView(models.program())._repr_html_() or "")
    assert "<details open><summary>Net " in found
    assert "0: Sequential" in found
    assert "<script" not in found
    assert re.findall("<summary>([^<]*)", found) == ["Net ", "layers: ModuleList ", "0: Sequential "]
    block = unflatten(models.transformer()).layers[0]
    assert "<summary>0: Block " in block._repr_html_()


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_small_graphs_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    nested = unflatten(models.program())
    small = nested._repr_svg_()
    assert small.startswith("<svg")
    assert small in nested._repr_html_()
    assert GraphView(models.joint())._repr_svg_() is None  # too large to be drawn without being asked for
    monkeypatch.setenv("PATH", "")
    assert nested._repr_svg_() is None
    assert nested._repr_html_().startswith("<div")


def test_names_of_the_model_win() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.relu()

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._repr_html_ = Inner()
            self._repr_svg_ = nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            return self._repr_html_(x) * self._repr_svg_

    model, x = Odd(), torch.tensor([-1.0, 2.0])
    nested = unflatten(torch.export.export(model, (x,)))
    assert torch.equal(nested(x), model(x))
    assert [name for name, _ in nested.named_modules()] == ["", "_repr_html_"]
    assert nested.get_submodule("_repr_html_") is nested._repr_html_
    assert isinstance(nested._repr_svg_, nn.Parameter)
    assert "Odd" in (info(nested)._repr_html_() or "")


def test_probes_and_copies_see_nothing_new() -> None:
    nested = unflatten(models.program())
    for name in ("_ipython_canary_method_should_not_exist_", "_repr_latex_", "_repr_mimebundle_", "_repr_png_"):
        assert not hasattr(nested, name)
        assert not hasattr(GraphView(models.program()), name)
    assert copy.deepcopy(nested)._repr_html_() == nested._repr_html_()
    assert pickle.loads(pickle.dumps(nested))._repr_html_() is None  # its nodes would have to be traced
    assert "_repr_html_" not in nested.state_dict()


def test_what_has_no_picture_shows_nothing() -> None:
    graph = fx.Graph()
    assert "graph" in (GraphView(graph)._repr_html_() or "")
