"""Times unflattening and calling beside torch's own unflatten, in one process.

    python -m tests.benchmarks

Each figure is the median of several runs, taken in turns. The peer needs a program of its own each time, since
it changes the one that it is given.
"""

from __future__ import annotations

import gc
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram, export
from torch.export import unflatten as torch_unflatten

from tests.benchmarks.models import MODELS
from unflatten import unflatten

REPEATS = 5


def seconds(functions: list[Callable[[], Any]], repeats: int = REPEATS) -> list[float]:
    """The median time of each function, called in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, own in zip(functions, times, strict=True):
            gc.collect()
            start = time.perf_counter()
            kept = function()
            own.append(time.perf_counter() - start)
            del kept
    return [statistics.median(own) for own in times]


def row(name: str, model: nn.Module, args: tuple[Any, ...]) -> str:
    """One line of the table."""
    program: ExportedProgram = export(model, args)
    theirs, ours = seconds([lambda: torch_unflatten(program), lambda: unflatten(program)], 3)
    nested, other = unflatten(program), torch_unflatten(program)
    assert torch.equal(nested(*args), model(*args))
    eager, mine, their = seconds([lambda: model(*args), lambda: nested(*args), lambda: other(*args)])
    figures = (theirs, ours, ours / theirs, mine / eager, their / eager)
    return f"| {name} | {len(program.graph.nodes)} | {' | '.join(f'{figure:.2f}' for figure in figures)} |"


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| model | nodes | torch: s | unflatten: s | ratio | call / eager | torch's call / eager |")
    print("|---|---|---|---|---|---|---|")
    for name, make in MODELS.items():
        model, args = make()
        print(row(name, model.eval(), args), flush=True)


if __name__ == "__main__":
    main()
