"""Spikes and membrane potentials over time, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unflatten.cli.faults import CommandError
from unflatten.cli.text import one_line

if TYPE_CHECKING:
    import numpy as np

    from nir_bridge import NIRModule

_LAYERS = 8
"""How many layers are drawn at most, and how many membranes of each."""
_LINES = 5


def wanted(net: NIRModule) -> list[str]:
    """What to record: spikes and membranes of the first layers of neurons.

    Raises:
        CommandError: there are none.
    """
    from nir_bridge.primitives.neuron import Neuron
    from unflatten.cli.trees import walk

    neurons = [(".".join(names), module) for names, module in walk(net) if isinstance(module, Neuron)]
    if not neurons:
        raise CommandError("the network has no neurons, so there is nothing to plot")
    names = []
    for path, module in neurons[:_LAYERS]:
        names.append(path)
        if "v" in module.parts:
            names.append(f"{path}:v")
    return names


def draw(output: str, net: NIRModule, recorded: Mapping[str, Any]) -> None:
    """Draws what was recorded: spikes to the left, membranes to the right, of the first series of a batch.

    Raises:
        CommandError: pictures can't be written in the format that the name asks for.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    layers = [name for name in recorded if not name.endswith(":v")]
    figure = Figure(figsize=(10, 1 + 2 * len(layers)), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    grid = figure.subplots(len(layers), 2, squeeze=False, sharex=True)
    for (left, right), name in zip(grid, layers, strict=True):
        size = _size(net, name)
        _raster(left, _flat(recorded[name], size), name)
        if f"{name}:v" in recorded:
            _membranes(right, _flat(recorded[f"{name}:v"], size))
    grid[0][0].set_title("spikes")
    grid[0][1].set_title("membrane potential")
    for axes in grid[-1]:
        axes.set_xlabel("step")
    kind = Path(output).suffix.lstrip(".").lower()
    if kind not in canvas.get_supported_filetypes():
        raise CommandError(f"can't draw {output!r}: end it with .png, .svg or .pdf")
    figure.savefig(output, dpi=120)


def _size(net: NIRModule, name: str) -> int:
    """How many neurons a layer has."""
    state: Any = net.initial_state(())
    for part in name.split("."):
        state = state[part]
    return max(int(value.numel()) for value in state.values())


def _flat(series: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """The first series of a batch, one column a neuron."""
    rows = series.reshape(series.shape[0], -1)
    return rows[:, : size if size > 1 else rows.shape[1]]


def _raster(axes: Any, spikes: np.ndarray[Any, Any], name: str) -> None:
    times, neurons = spikes.nonzero()
    axes.scatter(times, neurons, s=4, c="black", marker="|", linewidths=0.8)
    axes.set_ylim(-0.5, max(spikes.shape[1] - 0.5, 0.5))
    axes.set_ylabel(f"neuron of {_shown(name)}", parse_math=False)


def _membranes(axes: Any, values: np.ndarray[Any, Any]) -> None:
    for column in range(min(_LINES, values.shape[1])):
        axes.plot(values[:, column], linewidth=0.8, label=str(column))
    axes.legend(
        title="neuron", loc="center left", bbox_to_anchor=(1, 0.5), fontsize="x-small", title_fontsize="x-small"
    )


def _shown(names: str | Sequence[str]) -> str:
    return one_line(str(names))[:40]
