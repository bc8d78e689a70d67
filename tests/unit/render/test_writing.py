"""The formats: what is written is valid, names in it are data, and what is large is folded."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.unit.render import models
from unflatten import render, unflatten
from unflatten.errors import DrawingError, MissingToolError
from unflatten.render import Picture, Shape, as_svg
from unflatten.render.as_dot import dot_text
from unflatten.render.as_html import data
from unflatten.render.folding import closed, folded, grouped, opened

SVG = "{http://www.w3.org/2000/svg}"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


class Elements(html.parser.HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.scripts[-1] += data


def parsed(text: str) -> Any:
    return ET.fromstring(text)  # noqa: S314  # what is parsed was written here


def test_dot_has_a_cluster_for_each_call_and_a_box_for_each_node() -> None:
    text = render.dot(unflatten(models.program()))
    assert text.startswith("digraph {\n")
    assert text.endswith("}\n")
    assert text.count("subgraph cluster_") == 3  # a module with one node is a box
    assert "label=<<B>layers: ModuleList</B>>" in text
    assert "label=<<B>fc (call 2): Linear</B><BR/><FONT" in text
    assert len(re.findall(r"^ +n\d+ \[", text, re.MULTILINE)) == 7
    assert len(re.findall(r"^ +n\d+ -> n\d+$", text, re.MULTILINE)) == 6
    assert 'tooltip="mul: aten.mul.Tensor 2x4 f32"' in text
    assert render.dot(unflatten(models.program())) == text


@needs_dot
def test_svg_is_laid_out_and_says_more_where_the_mouse_is() -> None:
    drawn = render.svg(models.program())
    root = parsed(drawn)
    found = [element.text for element in root.iter(f"{SVG}title")]
    assert root.tag == f"{SVG}svg"
    assert {"Net", "fc torch.nn.modules.linear.Linear: 1 nodes", "linear: aten.linear.default 2x4 f32"} - set(
        found
    ) == {"fc torch.nn.modules.linear.Linear: 1 nodes"}
    assert "x \u2192 linear" in found
    assert "mul" in [element.text for element in root.iter(f"{SVG}text")]
    assert {element.tag for element in root.iter()} <= {f"{SVG}{tag}" for tag in (
        "svg", "g", "title", "text", "path", "polygon", "polyline", "ellipse",
    )}  # fmt: skip


def test_without_graphviz_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingToolError, match=r"apt install graphviz.*render\.html"):
        render.svg(models.program())
    with pytest.raises(MissingToolError, match="can't run /nowhere/dot"):
        as_svg.drawn_by("/nowhere/dot", render.picture(models.program()))


def test_a_graphviz_that_fails_or_hangs(tmp_path: Path) -> None:
    drawn = render.picture(models.program())
    for script, said in (
        ("echo bad >&2; exit 3", "can't draw this: bad"),
        ("exec sleep 30", r"7 boxes and 6 edges in 0\.2 s"),
    ):
        command = tmp_path / "dot"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        with pytest.raises(DrawingError, match=said):
            as_svg.drawn_by(str(command), drawn, 0.2 if "sleep" in script else 60)


def test_model_explorer() -> None:
    found = json.loads(render.model_explorer(models.program()))
    (graph,) = found["graphs"]
    assert (found["label"], graph["id"]) == ("Net", "Net")
    assert [(node["id"], node["label"], node["namespace"]) for node in graph["nodes"]] == [
        ("0", "x", ""),
        ("1", "linear", "fc (call 1): Linear"),
        ("2", "mul", ""),
        ("3", "linear", "fc (call 2): Linear"),
        ("4", "linear", "layers/0: Sequential/0: Linear"),
        ("5", "relu", "layers/0: Sequential/1: ReLU"),
        ("6", "output", ""),
    ]
    edge = {"sourceNodeId": "1", "sourceNodeOutputId": "0", "targetNodeInputId": "0"}
    assert graph["nodes"][2]["incomingEdges"] == [edge]
    assert {"key": "target", "value": "aten.mul.Tensor"} in graph["nodes"][2]["attrs"]
    assert graph["nodes"][2]["outputsMetadata"] == [{"id": "0", "attrs": [{"key": "tensor_shape", "value": "2x4 f32"}]}]
    assert graph["groupNodeAttributes"]["fc (call 1): Linear"]["module"] == "fc"


def test_namespaces_of_model_explorer_are_distinct() -> None:
    drawn = render.picture(models.transformer())
    nodes = json.loads(render.model_explorer(drawn))["graphs"][0]["nodes"]
    spaces = {node["namespace"] for node in nodes}
    assert len(spaces) == len({node.cluster for node in drawn.nodes})
    hostile = json.loads(render.model_explorer(models.hostile()))["graphs"][0]["nodes"]
    assert len({node["namespace"] for node in hostile}) == len(models.HOSTILE)


def test_a_page_is_one_file_that_runs_its_own_script_only() -> None:
    page = Elements(render.html(models.program()))
    tags = [tag for tag, _ in page.found]
    assert {"img", "iframe", "object", "embed", "audio", "video", "base", "form"} & set(tags) == set()
    assert [attributes for tag, attributes in page.found if tag == "link"] == [{"rel": "icon", "href": "data:,"}]
    assert all(name not in attributes for _, attributes in page.found for name in ("src", "style", "onclick", "onload"))
    policy = next(a["content"] for tag, a in page.found if tag == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert json.loads(page.scripts[0])["nodes"][0][2] == 0
    assert "innerHTML" not in page.scripts[1]
    assert "http" not in page.scripts[1].replace("http://www.w3.org/2000/svg", "")


def test_names_are_data_in_pages() -> None:
    page = render.html(models.hostile())
    found = Elements(page)
    plain = Elements(render.html(models.program()))
    assert [tag for tag, _ in found.found] == [tag for tag, _ in plain.found]
    assert found.scripts[1] == plain.scripts[1]
    inner = json.loads(found.scripts[0])
    assert inner["text"][inner["nodes"][0][0]] == models.HOSTILE[0]
    assert all(len(text) <= 1000 for text in inner["text"])
    assert not set("<>&") & set(data(models.hostile()))


@needs_dot
def test_names_are_data_in_dot_and_svg() -> None:
    drawn = models.hostile()
    text = dot_text(drawn)
    done = subprocess.run([shutil.which("dot") or "", "-Tplain"], input=text.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    assert done.stdout.count(b"\nnode ") == len(drawn.nodes)
    root = parsed(render.svg(drawn))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "g", "title", "text", "path", "polygon", "polyline", "ellipse",
    }  # fmt: skip
    assert not any(name.lower().startswith("on") for element in root.iter() for name in element.attrib)
    assert "</script><script>alert(1)</script>" in {element.text for element in root.iter(f"{SVG}text")}


def test_modules_are_folded_until_the_limit_is_kept() -> None:
    tower = models.tower(30, 40)
    tower.verify()
    small = folded(tower, 100)
    small.verify()
    assert len(small.nodes) <= 100
    assert [node.label for node in small.nodes][:3] == ["x 2x8 f32", "mlp: MLP 40 nodes", "add 2x8 f32"]
    assert sum(node.shape is Shape.MODULE for node in small.nodes) == 30
    assert len(small.edges) == 30 * 3 + 1
    tiny = folded(tower, 3)
    assert [node.label for node in tiny.nodes] == ["x 2x8 f32", "layers: ModuleList 1,230 nodes", "output 2x8 f32"]
    assert folded(tower, 2000).nodes == tower.nodes


@pytest.mark.parametrize("count", [100, 151, 5000, 20000])
def test_long_runs_get_clusters_of_their_own(count: int) -> None:
    tower = models.tower(0, 0)
    flat = Picture(
        "flat",
        (render.Cluster(-1, "", nodes=count),),
        tuple(render.Node(f"n{at}", "relu", 0) for at in range(count)),
        tuple(render.Edge(at - 1, at) for at in range(1, count)),
    )
    found = grouped(flat)
    found.verify()
    assert [node.name for node in found.nodes] == [node.name for node in flat.nodes]
    assert max(len(a) + len(b) for a, b in zip(found.own(), found.inside(), strict=True)) <= 150
    assert (found is flat) is (count == 100)
    once = closed(found, opened(found, 60))
    assert all(edge.source < edge.target for edge in once.edges)
    assert grouped(tower) is tower


def test_runs_are_named_after_their_ends() -> None:
    found = grouped(models.tower(160, 1))
    names = [cluster.name for cluster in found.clusters if "\u2026" in cluster.name]
    assert names == ["0 \u2026 49", "50 \u2026 99", "100 \u2026 149", "150 \u2026 159"]


@needs_dot
def test_ten_thousand_nodes_are_drawn_folded() -> None:
    tower = models.tower(240, 40)
    assert len(tower.nodes) == 9842
    root = parsed(render.svg(tower))
    assert 200 < sum(element.get("class") == "node" for element in root.iter()) <= 401


def test_phases_differ_by_their_borders_too() -> None:
    phases = ("forward", "backward", "recompute")
    nodes = tuple(render.Node(phase, phase, 0, phase=phase) for phase in phases)
    edges = (render.Edge(0, 1), render.Edge(2, 1, delayed=True))
    text = dot_text(Picture("phases", (render.Cluster(-1, "", nodes=3),), nodes, edges))
    styles = re.findall(r'n\d \[.* style="([^"]*)"', text)
    assert styles == ["rounded,filled", "filled", "rounded,filled,dashed"]
    assert 'n0 -> n1 [color="#c3cad3"]' in text
    assert "n2 -> n1 [style=dashed" in text
