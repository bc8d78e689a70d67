"""Pictures of networks: nodes, groups, and edges that carry the step before."""

from __future__ import annotations

from pathlib import Path

import pytest

from nir_bridge import from_nir
from unflatten import render
from unflatten.errors import UnknownPathError
from unflatten.render import Shape

BRAILLE = Path(__file__).parents[2] / "data" / "nir" / "braille_noDelay_bias_zero.nir"


def test_a_network_with_its_groups_and_feedback() -> None:
    drawn = render.picture(from_nir(BRAILLE))
    drawn.verify()
    assert [(drawn.clusters[node.cluster].title, node.label) for node in drawn.nodes] == [
        ("NIRGraph", "input 12"),
        ("NIRGraph", "fc1: Linear 38"),
        ("NIRGraph", "fc2: Linear 7"),
        ("lif1: Group", "lif: CubaLIF 38"),
        ("lif1: Group", "w_rec: Linear 38"),
        ("NIRGraph", "lif2: CubaLIF 7"),
        ("NIRGraph", "output"),
    ]
    names = [(drawn.nodes[edge.source].name, drawn.nodes[edge.target].name, edge.delayed) for edge in drawn.edges]
    assert ("lif1.lif", "lif1.w_rec", True) in names
    assert sum(delayed for _, _, delayed in names) == 1
    assert ("v_threshold", "buffer 38 f32") in drawn.nodes[3].details
    assert ("state", "i, v") in drawn.nodes[3].details
    assert "style=dashed" in render.dot(drawn)


def test_a_group_alone_and_by_its_path() -> None:
    net = from_nir(BRAILLE)
    inside = render.picture(net, "lif1")
    assert [(node.name, node.shape) for node in inside.nodes] == [
        ("fc1", Shape.INPUT),
        ("lif1.lif", Shape.COMPUTE),
        ("lif1.w_rec", Shape.COMPUTE),
        ("output lif1.lif", Shape.OUTPUT),
    ]
    assert inside.clusters[0].title == "lif1: Group"
    alone = render.picture(net.lif1)
    alone.verify()
    assert {"CubaLIF", "Linear"} <= {node.op for node in alone.nodes}
    with pytest.raises(UnknownPathError, match="no module 'lif3'"):
        render.picture(net, "lif3")


def test_networks_have_all_formats_and_a_tree_in_notebooks() -> None:
    net = from_nir(BRAILLE)
    assert "lif1.w_rec" in render.html(net)
    assert '"namespace":"lif1: Group"' in render.model_explorer(net)
    assert "lif1: Group" in net._repr_html_()
