"""The page of a drawing in a browser: it asks for nothing, finds, opens, and is quick with many nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Page, browsing, chromium
from tests.unit.render import models
from unflatten import GraphView, render, unflatten
from unflatten.render import Picture

COMMAND = chromium()
pytestmark = pytest.mark.skipif(COMMAND is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browsing(COMMAND or "") as found:
        yield found


def show(page: Page, folder: Path, text: str) -> Path:
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    page.requests.clear()
    page.open(file)
    return file


def boxes(page: Page) -> list[str]:
    """The first line of each box that is drawn."""
    found: list[str] = page.run(
        "[...document.querySelectorAll('.box')].map(box => box.querySelector('text')?.textContent ?? '')"
    )
    return found


def chosen(page: Page) -> str:
    return str(page.run("document.querySelector('#panel h2').textContent"))


def test_it_opens_and_asks_for_nothing(page: Page, tmp_path: Path) -> None:
    file = show(page, tmp_path, render.html(unflatten(models.program())))
    assert page.run("document.title") == "Net"
    assert sorted(boxes(page)) == [
        "0: Linear", "1: ReLU", "fc (call 1): Linear", "fc (call 2): Linear", "mul", "output", "x",
    ]  # fmt: skip
    assert page.run("document.querySelectorAll('path.line').length") == 10  # six edges, and what enters and leaves
    assert [address for address in page.requests if not address.startswith("data:")] == [file.as_uri()]
    assert page.messages == []


def test_a_search_finds_a_module_and_opens_what_is_around_it(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, render.html(models.tower(30, 40)))
    assert "mlp: MLP" not in boxes(page)
    page.press("/")
    page.type("layers.17.mlp")
    assert page.run("document.querySelector('#found').textContent") == "1 found"
    assert page.run("document.querySelector('#tree .name').textContent") == "layers.17.mlp"
    page.press("Enter")
    assert chosen(page) == "mlp: MLP"
    assert boxes(page).count("mlp: MLP") == 1
    assert page.run("document.querySelector('#panel dd').textContent") == "layers.17.mlp"
    page.press("/")
    page.type("mm_77")
    page.press("Enter")
    assert chosen(page) == "mm_77"


def test_a_module_opens_shows_its_nodes_and_closes_by_keys_and_by_mouse(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, render.html(models.tower(30, 3)))
    page.press("/")
    page.type("layers.2")
    page.press("Enter")
    page.press("Enter")
    assert boxes(page).count("mlp: MLP") == 1
    page.press("ArrowDown")
    page.run("choose(clusters.find(it => it.path === 'layers.2.mlp'))")
    page.press("Enter")
    assert [name for name in boxes(page) if name in ("relu", "mm")] == ["relu", "mm", "relu"]
    page.press("ArrowDown")
    page.press("Escape")
    page.press("Escape")
    page.run("document.querySelector('.frame.chosen').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))")
    page.frame()
    assert "mlp: MLP" not in boxes(page)
    assert page.messages == []


def test_the_tree_works_by_keys(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, render.html(models.tower(30, 3)))
    focused = "document.activeElement.querySelector('.name').textContent"
    page.press("/")
    page.type("layers.2")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert page.run(focused) == "layers.2.mlp"
    page.press("ArrowRight")
    page.press("Enter")
    assert (chosen(page), page.run(focused)) == ("mlp: MLP", "layers.2.mlp")
    assert [name for name in boxes(page) if name in ("relu", "mm")] == ["relu", "mm", "relu"]
    page.press("ArrowLeft")
    assert boxes(page).count("mlp: MLP") == 1
    page.press("ArrowUp")
    page.press("ArrowUp")
    page.press("Escape")
    assert page.run("document.querySelector('#tree .name').textContent") == "layers: ModuleList"
    assert page.messages == []


def test_arrow_keys_follow_the_graph(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, render.html(unflatten(models.program())))
    seen = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.press(key)
        seen.append(chosen(page))
    assert seen == ["x", "fc (call 1): Linear", "mul", "fc (call 1): Linear"]
    assert page.run("document.querySelectorAll('path.lit').length") == 2
    assert page.run("[...document.querySelectorAll('#panel dt')].map(e => e.textContent).includes('weight')")


def test_phases_differ_by_more_than_colour_and_in_the_dark(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, render.html(GraphView(models.joint())))
    assert page.run("[...document.querySelectorAll('#legend li')].map(e => e.textContent)") == ["forward", "backward"]
    corner = "document.querySelector('.box.{}.module rect').getAttribute('rx')"
    assert (page.run(corner.format("forward")), page.run(corner.format("backward"))) == ("8", "0")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.run(colour)
    page.dark()
    assert (light, page.run(colour)) == ("rgb(255, 255, 255)", "rgb(20, 24, 29)")


def test_names_can_do_no_harm(page: Page, tmp_path: Path) -> None:
    file = show(page, tmp_path, render.html(models.hostile()))
    page.press("e")
    page.press("/")
    page.type("</script>")
    page.press("Enter")
    assert models.HOSTILE[0] in chosen(page)
    assert page.run("document.querySelectorAll('script').length") == 2
    assert page.run("document.querySelectorAll('#graph script, #panel script, #tree script').length") == 0
    assert [address for address in page.requests if not address.startswith("data:")] == [file.as_uri()]
    assert page.messages == []


@pytest.mark.parametrize("layers", [0, 240])
def test_ten_thousand_nodes_are_usable_at_once(page: Page, tmp_path: Path, layers: int) -> None:
    drawn = models.tower(layers, 40) if layers else row(10_000)
    start = time.monotonic()
    show(page, tmp_path, render.html(drawn))
    page.press("/")
    page.type("mm_7778" if layers else "n7778")
    page.press("Enter")
    spent = time.monotonic() - start
    assert chosen(page) in ("mm_7778", "n7778")
    page.press("e")
    assert len(boxes(page)) <= 6000
    assert spent < 20  # five seconds on a machine that does nothing else


def row(count: int) -> Picture:
    nodes = tuple(render.Node(f"n{at}", "relu", 0) for at in range(count))
    edges = tuple(render.Edge(at - 1, at) for at in range(1, count))
    return Picture("row", (render.Cluster(-1, "", nodes=count),), nodes, edges)


def test_cycles_of_networks_go_up_and_are_dashed(page: Page, tmp_path: Path) -> None:
    nodes = tuple(render.Node(name, name, 0) for name in ("in", "lif", "rec"))
    edges = (render.Edge(0, 1), render.Edge(1, 2, delayed=True), render.Edge(2, 1), render.Edge(1, 1, delayed=True))
    show(page, tmp_path, render.html(Picture("loop", (render.Cluster(-1, "", nodes=3),), nodes, edges)))
    tops = page.run("seen.boxes.map(box => [box.it.name, box.y])")
    heights = dict(tops)
    assert heights["rec"] < heights["lif"]
    assert page.run("document.querySelectorAll('path.late').length") == 2
    assert page.run("document.querySelectorAll('path.line').length") == 4
    assert page.messages == []


def test_lines_pass_through_the_frames_of_containers_that_nothing_calls(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, render.html(unflatten(models.skips(4))))
    page.run("closeAll(); refresh(); 1")
    skips = """(() => {
      const at = (it) => it.path || it.name, ends = new Map();
      for (const { line } of seen.lines) {
        const home = clusters.find(it => line.key.startsWith(`${it.id} `));
        const [, from, to] = line.key.split(" ").map(Number);
        if (from >= 0 && to >= 0) ends.set(line.key, `${at(thing(from))} ${at(thing(to))}`);
      }
      return [...ends.values()].filter(it => /^down\\S* up/.test(it)).sort();
    })()"""
    assert page.run(skips) == ["down up"]
    for name in ("down", "up"):
        page.run(f"toggle(clusters.find(it => it.path === '{name}')); 1")
    assert page.run(skips) == ["down.0 up.3", "down.1 up.2", "down.2 up.1", "down.3 up.0"]
    page.run("choose(clusters.find(it => it.path === 'up.2')); 1")
    page.frame()
    # Its skip in three pieces, what comes from up.1, what goes to up.3.
    assert page.run("document.querySelectorAll('path.lit').length") == 5
    page.run("toggle(clusters.find(it => it.path === 'up')); 1")
    assert page.run(skips) == ["down.0 up", "down.1 up", "down.2 up", "down.3 up"]
    assert page.messages == []


def test_the_pieces_of_a_line_meet_at_the_frames(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, render.html(unflatten(models.woven(3))))
    page.run("closeAll(); for (const it of clusters.slice(1)) if (it.loose) toggle(it); 1")
    ends = page.run("""(() => {
      const found = {};
      for (const { line, x, y } of seen.lines) {
        const ends = [line.points[0], line.points[line.points.length - 1]].map(p => [x + p[0], y + p[1]]);
        (found[line.key] ??= []).push(...ends);
      }
      return Object.values(found);
    })()""")
    long = [points for points in ends if len(points) > 2]
    assert len(long) == 7  # five between the two containers, the input and the output
    for points in long:
        places = [(round(x, 6), round(y, 6)) for x, y in points]
        assert sum(places.count(place) == 2 for place in places) == len(places) - 2
