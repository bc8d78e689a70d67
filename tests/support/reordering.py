"""Reordering a program in place."""

from __future__ import annotations

import random

from torch.export import ExportedProgram

from unflatten.testing.orders import early, late, order_by

ORDERS = ["few moves", "late", "early", "random"]


def reorder(program: ExportedProgram, how: str, draw: random.Random) -> None:
    """Moves the operators of a program into another order in which they compute the same."""
    place = {node: at for at, node in enumerate(program.graph.nodes)}
    makers = {
        "early": lambda: early(program.graph),
        "late": lambda: late(program.graph),
        "random": lambda: order_by(program.graph, how, lambda _: draw.random()),
        "few moves": lambda: order_by(program.graph, how, lambda node: place[node] + draw.choice([0] * 9 + [20])),
    }
    makers[how]().apply(program)
