"""Random NIR graphs: every primitive, nested, with cycles of any shape, and names of any kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import nir
import numpy as np
from hypothesis import strategies as st

from unflatten.testing.nir.names import node_names, port_names
from unflatten.testing.nir.nodes import PRIMITIVES, Block, Shape, nir_nodes, takes

Edge = tuple[str, str]


@dataclass(frozen=True)
class Features:
    """What graphs may hold; the arguments of `nir_graphs`."""

    primitives: tuple[type[nir.NIRNode], ...]
    max_nodes: int
    depth: int
    cycles: bool
    images: bool
    several_ports: bool
    hostile_names: bool
    shared_nodes: bool
    duplicate_edges: bool
    loose_ends: bool
    edges_through_ports: bool


def nir_graphs(  # noqa: PLR0913  # each is a choice of its own, by keyword
    *,
    primitives: Collection[type[nir.NIRNode]] = PRIMITIVES,
    max_nodes: int = 5,
    depth: int = 2,
    cycles: bool = True,
    images: bool = True,
    several_ports: bool = True,
    hostile_names: bool = True,
    shared_nodes: bool = True,
    duplicate_edges: bool = True,
    loose_ends: bool = True,
    edges_through_ports: bool = True,
) -> st.SearchStrategy[nir.NIRGraph]:
    """Valid NIR graphs, small ones first.

    Nodes and edges are in any order. Shapes fit, and all Input and Output nodes declare theirs. Everything that can
    be switched off is on.

    Args:
        primitives: the types of nodes.
        max_nodes: how many nodes a graph may have, Input, Output and nested nodes not counted.
        depth: how many graphs may be inside of each other.
        cycles: self loops, long loops, loops inside of loops, recurrent blocks, loops that nothing feeds.
        images: signals of several axes, for convolutions and pooling.
        several_ports: several Input and Output nodes, which edges name as `"graph.port"`.
        hostile_names: any string as a name, and names that are easily taken for others.
        shared_nodes: one object under several names, nested graphs too.
        duplicate_edges: the same edge several times.
        loose_ends: nodes that nothing leads into, and nodes that lead nowhere.
        edges_through_ports: edges into Input nodes and out of Output nodes.

    Example:
        >>> import nir
        >>> from hypothesis import find
        >>> graph = find(nir_graphs(), lambda graph: len(graph.nodes) > 2)
        >>> isinstance(graph, nir.NIRGraph), len(graph.nodes) > 2
        (True, True)
    """
    features = Features(
        tuple(kind for kind in PRIMITIVES if kind in primitives),
        max_nodes,
        depth,
        cycles,
        images,
        several_ports,
        hostile_names,
        shared_nodes,
        duplicate_edges,
        loose_ends,
        edges_through_ports,
    )
    return _graphs(features, None)


def _palettes(features: Features) -> st.SearchStrategy[tuple[Shape, ...]]:
    """The shapes of the signals of a graph."""
    vectors = st.sampled_from(((1,), (2,), (3,)))
    if not features.images:
        return st.tuples(vectors)
    images = st.sampled_from((None, None, (1, 3, 2), (2, 4, 3), (2, 5), (1, 3), (2, 2)))
    return st.tuples(images, vectors).map(lambda pair: tuple(shape for shape in pair if shape is not None))


@dataclass
class _Draft:
    """A graph while it is drawn.

    Attributes:
        nodes: the nodes so far.
        sources, targets: where edges may start and end, with the shapes there, in order.
        fed: for nodes that don't say what they take, sources that lead to them in any case.
        shapes: of signals that there are.
    """

    nodes: dict[str, nir.NIRNode] = field(default_factory=dict)
    sources: list[tuple[str, Shape]] = field(default_factory=list)
    targets: list[tuple[str, Shape]] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    fed: list[Edge] = field(default_factory=list)
    sure: dict[Shape, list[str]] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)

    def add(self, name: str, block: Block) -> None:
        self.nodes[name] = block.node
        self.blocks[name] = block
        self.targets.append((name, block.takes))
        self.sources.append((name, block.gives))
        if block.gives not in self.shapes:
            self.shapes.append(block.gives)


@st.composite
def _graphs(draw: st.DrawFn, features: Features, palette: tuple[Shape, ...] | None) -> nir.NIRGraph:
    root = palette is None
    draft = _Draft(shapes=list(palette if palette is not None else draw(_palettes(features))))
    count = draw(st.integers(1 if features.several_ports else 0, features.max_nodes))
    names = draw(st.lists(node_names(hostile=features.hostile_names), min_size=count, max_size=count, unique=True))
    inputs = [_port_name(draw, features, "input", names)]
    if features.several_ports and draw(st.integers(0, 3)) == 3:
        inputs.append(_port_name(draw, features, "input", [*names, *inputs]))
    given = {name: draw(st.sampled_from(draft.shapes)) for name in inputs}
    for name, shape in given.items():
        draft.inputs.append(name)
        draft.sources.append((name, shape))
        draft.sure.setdefault(shape, []).append(name)
    for name in names:
        _add_node(draw, features, draft, name)
    outputs = _outputs(draw, features, draft, [*names, *inputs])
    edges = _edges(draw, features, draft, given, outputs)
    nodes = {
        **draft.nodes,
        **{name: nir.Input(np.array(shape)) for name, shape in given.items()},
        **{name: nir.Output(np.array(shape)) for name, shape in outputs.items()},
    }
    order = list(nodes) if root and count < 2 else draw(st.permutations(list(nodes)))
    return nir.NIRGraph({name: nodes[name] for name in order}, edges, type_check=False)


def _port_name(draw: st.DrawFn, features: Features, word: str, taken: Collection[str]) -> str:
    return draw(port_names(word, hostile=features.hostile_names).filter(lambda name: name not in taken))


def _add_node(draw: st.DrawFn, features: Features, draft: _Draft, name: str) -> None:
    """Draws a node: a new one, one that is there already, or a graph."""
    what = draw(st.integers(0, 9))
    if what == 9 and features.depth > 0:
        inner = replace(features, depth=features.depth - 1, max_nodes=min(features.max_nodes, 3))
        draft.nodes[name] = draw(_graphs(inner, tuple(draft.shapes)))
    elif what == 8 and features.shared_nodes and draft.nodes:
        other = draw(st.sampled_from(sorted(draft.nodes)))
        if other not in draft.blocks:
            draft.nodes[name] = draft.nodes[other]
        elif not draft.blocks[other].inferred or draft.blocks[other].takes in draft.sure:
            _feed(draw, draft, name, draft.blocks[other])
    else:
        kinds = [kind for kind in features.primitives if any(takes(kind, shape) for shape in draft.shapes)]
        if kinds:
            kind = draw(st.sampled_from(kinds))
            shape = draw(st.sampled_from([shape for shape in draft.shapes if takes(kind, shape)]))
            _feed(draw, draft, name, draw(nir_nodes(shape, kind)))


def _feed(draw: st.DrawFn, draft: _Draft, name: str, block: Block) -> None:
    """Adds a node, with an edge to it where it needs one; leaves it out where there is none to give."""
    if block.inferred:
        if block.takes not in draft.sure:
            return
        draft.fed.append((draw(st.sampled_from(draft.sure[block.takes])), name))
        draft.sure.setdefault(block.gives, []).append(name)
    draft.add(name, block)


def _outputs(draw: st.DrawFn, features: Features, draft: _Draft, taken: list[str]) -> dict[str, Shape]:
    """Output nodes, each of a shape that something gives."""
    shapes = list(dict.fromkeys([shape for _, shape in reversed(draft.sources)]))
    outputs: dict[str, Shape] = {}
    for _ in range(2 if features.several_ports and draw(st.integers(0, 3)) == 3 else 1):
        name = _port_name(draw, features, "output", [*taken, *outputs])
        outputs[name] = draw(st.sampled_from(shapes))
    return outputs


def addresses(nodes: Mapping[str, nir.NIRNode]) -> Iterator[tuple[str, str, type[nir.NIRNode], Shape]]:
    """The ports of nested graphs as edges name them: address, name of the graph, type of the port, shape.

    What could be read in two ways is left out.
    """
    found = [
        (f"{name}.{port}", name, kind, port, inner)
        for name, graph in nodes.items()
        if isinstance(graph, nir.NIRGraph)
        for port, inner in graph.nodes.items()
        for kind in (nir.Input, nir.Output)
        if isinstance(inner, kind)
    ]
    often = Counter(address for address, *_ in found)
    for address, name, kind, _, inner in found:
        if often[address] == 1 and address not in nodes:
            yield address, name, kind, shape_of(inner)
    alone = Counter((name, kind) for _, name, kind, *_ in found)
    for _, name, kind, _, inner in found:
        if alone[name, kind] == 1:
            yield name, name, kind, shape_of(inner)


def shape_of(port: nir.NIRNode) -> Shape:
    """The shape that an Input or Output node declares."""
    declared = port.input_type["input"] if isinstance(port, nir.Input) else port.output_type["output"]
    return tuple(int(size) for size in declared)


def _edges(
    draw: st.DrawFn, features: Features, draft: _Draft, looped: Mapping[str, Shape], outputs: Mapping[str, Shape]
) -> list[Edge]:
    """Edges between what has the same shape."""
    sources, targets = list(draft.sources), list(draft.targets)
    rank = {name: at for at, name in enumerate([*draft.inputs, *draft.nodes])}
    for address, name, kind, shape in addresses(draft.nodes):
        rank[address] = rank[name]
        (targets if kind is nir.Input else sources).append((address, shape))
    edges = list(draft.fed)
    fed = {target for _, target in edges}
    for target, shape in targets:
        fits = [source for source, other in sources if other == shape and rank[source] < rank[target]]
        if target not in fed and fits and (not features.loose_ends or draw(st.integers(0, 4)) < 4):
            edges.append((draw(st.sampled_from(fits[::-1])), target))
    for name, shape in outputs.items():
        edges.append((draw(st.sampled_from([source for source, other in sources if other == shape][::-1])), name))
        rank[name] = len(rank)
    if features.edges_through_ports and features.cycles and draw(st.integers(0, 9)) == 9:
        sources += outputs.items()
        targets += looped.items()
    candidates = [
        (source, target)
        for source, shape in sources
        for target, other in (*targets, *outputs.items())
        if shape == other and (features.cycles or rank[source] < rank[target])
    ]
    edges += draw(st.lists(st.sampled_from(candidates), max_size=6)) if candidates else []
    if not features.duplicate_edges:
        edges = list(dict.fromkeys(edges))
    return draw(st.permutations(edges)) if len(edges) > 2 else edges
