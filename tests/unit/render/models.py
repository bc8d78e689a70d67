"""Models to draw, and pictures made by hand."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from tests.support import capturing
from tests.support.trainable import MODELS
from unflatten.render import Cluster, Edge, Node, Picture, Shape

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--",
    '"];}//\\"\\n\\N',
    "' onload='alert(1)",
    "&amp;&lt;b&gt;]]>",
    "\u202egnp.exe \x00\x1b[31m\ud800 \U0001f600",
    "a\nb\r\nc\td",
    "n" * 5000,
    "",
    "a/b",
    "@data@",
)


class Net(nn.Module):
    """A shared module, a container, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.ReLU())])
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(self.fc(x) * self.scale)
        return self.layers[0](y)


class Up(nn.Module):
    """Takes a skip connection."""

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        return torch.cat([x, skip], -1).sin()


class Skips(nn.Module):
    """A U-Net: what goes down in one list comes up in another."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Sequential(nn.ReLU(), nn.Tanh()) for _ in range(depth)])
        self.up = nn.ModuleList([Up() for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        for up in self.up:
            x = up(x, skips.pop())
        return x


class Woven(nn.Module):
    """Two lists whose modules take turns."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.acts = nn.ModuleList([nn.Tanh() for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(4) for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        for act, norm in zip(self.acts, self.norms, strict=True):
            x = norm(act(x))
        return x


def skips(depth: int) -> ExportedProgram:
    """`Skips` as a program."""
    return torch.export.export(Skips(depth), (torch.ones(2, 4),))


def woven(depth: int) -> ExportedProgram:
    """`Woven` as a program."""
    return torch.export.export(Woven(depth), (torch.ones(2, 4),))


@cache
def program() -> ExportedProgram:
    """`Net` as a program."""
    return torch.export.export(Net(), (torch.ones(2, 4),))


@cache
def transformer() -> ExportedProgram:
    """A transformer of two layers as a program."""
    model, args = MODELS["transformer"]()
    return torch.export.export(model, args)


@cache
def joint() -> fx.GraphModule:
    """Forward and backward of the transformer in one graph."""
    model, args = MODELS["transformer"]()
    return capturing.joint(capturing.by_dynamo(model, args), args)


def hostile() -> Picture:
    """A picture in which everything has a bad name."""
    clusters = [Cluster(-1, HOSTILE[0], HOSTILE[0], HOSTILE[0])]
    nodes: list[Node] = []
    for at, name in enumerate(HOSTILE):
        clusters.append(Cluster(at, name, name, name, nodes=2 * (len(HOSTILE) - at), details=((name, name),)))
        nodes += (
            Node(name, name, at + 1, name, Shape.COMPUTE, phase, name, ((name, name),)) for phase in ("forward", name)
        )
    clusters[0] = Cluster(-1, HOSTILE[0], HOSTILE[0], HOSTILE[0], nodes=len(nodes))
    edges = tuple(Edge(at, at + 1) for at in range(len(nodes) - 1))
    return Picture(HOSTILE[0], tuple(clusters), tuple(nodes), edges)


def tower(layers: int, size: int) -> Picture:
    """Layers of two modules each, `size` nodes in the first and a sum around it."""
    clusters = [Cluster(-1, "", type_name="Tower"), Cluster(0, "layers", "layers", "ModuleList", called=False)]
    nodes = [Node("x", "x", 0, "2x8 f32", Shape.INPUT)]
    edges: list[Edge] = []
    for layer in range(layers):
        block = len(clusters)
        clusters.append(Cluster(1, str(layer), f"layers.{layer}", "pkg.Block", phase="forward", nodes=size + 1))
        clusters.append(Cluster(block, "mlp", f"layers.{layer}.mlp", "pkg.MLP", phase="forward", nodes=size))
        start = len(nodes) - 1
        for step in range(size):
            nodes.append(Node(f"mm_{len(nodes)}", "mm" if step % 2 else "relu", block + 1, "2x8 f32"))
            edges.append(Edge(len(nodes) - 2, len(nodes) - 1))
        nodes.append(Node(f"add_{len(nodes)}", "add", block, "2x8 f32"))
        edges += [Edge(len(nodes) - 2, len(nodes) - 1), Edge(start, len(nodes) - 1)]
    nodes.append(Node("output", "output", 0, "2x8 f32", Shape.OUTPUT))
    edges.append(Edge(len(nodes) - 2, len(nodes) - 1))
    clusters[0] = Cluster(-1, "", type_name="Tower", nodes=len(nodes))
    clusters[1] = Cluster(0, "layers", "layers", "ModuleList", nodes=len(nodes) - 2)
    return Picture("tower", tuple(clusters), tuple(nodes), tuple(edges))
