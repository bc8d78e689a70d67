"""`unflatten run`."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Annotated, Any

import typer

from unflatten.cli.faults import CommandError
from unflatten.cli.options import NetworkFile, Rules, Step
from unflatten.cli.output import Screen
from unflatten.cli.progress import working

Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT.npy", show_default=False, help="Time first; .npz where there are several; - is stdin."
    ),
]
Out = Annotated[str, typer.Option("--output", "-o", show_default=False, help="OUT.npy, or OUT.npz for several.")]
Picture = Annotated[
    str | None,
    typer.Option("--plot", show_default=False, help="Draw spikes and membranes: x.png, x.svg or x.pdf."),
]
Recorded = Annotated[
    list[str] | None,
    typer.Option("--record", "-r", show_default=False, help="A node to write too; lif:v is its membrane. Repeatable."),
]


def run(
    file: NetworkFile,
    given: Input,
    output: Out,
    dynamics: Rules = None,
    dt: Step = None,
    record: Recorded = None,
    plot: Picture = None,
) -> None:
    """Run a NIR network on a series, with the dynamics of a framework.

    unflatten run network.nir input.npy -o output.npy
    unflatten run network.nir input.npy -o output.npy --dynamics snntorch --plot spikes.png
    unflatten run network.nir input.npy -o all.npz --record lif1 --record lif1:v
    """
    names = list(record or ())
    if names and Path(output).suffix != ".npz":
        raise CommandError(
            f"with --record there are several arrays: give -o a name that ends with .npz, not {output!r}"
        )
    if Path(output).suffix not in (".npy", ".npz", ""):
        raise CommandError(f"can't tell from {output!r} what to write; end it with .npy or .npz")
    from unflatten.cli.opening import network
    from unflatten.cli.plotting import draw, wanted

    net = network(file, dynamics, dt)
    series = _series(given)
    seen = wanted(net) if plot else []
    with working(f"running {file}"):
        ys, _, found = _run(net, series, [*names, *seen])
    results = ys if isinstance(ys, dict) else {"output": ys}
    _write(
        output, {**{name: value.numpy() for name, value in results.items()}, **{name: found[name] for name in names}}
    )
    screen = Screen(sys.stderr)
    screen.line(f"wrote {output}")
    if plot:
        draw(plot, net, {name: found[name] for name in seen})
        screen.line(f"wrote {plot}")


def _run(net: Any, series: Any, names: list[str]) -> Any:
    import torch

    with torch.no_grad():
        if not names:
            return (*net.run(series), {})
        ys, state, found = net.run(series, record=tuple(dict.fromkeys(names)))
    return ys, state, {name: value.numpy() for name, value in found.items()}


def _series(file: str) -> Any:
    """The inputs: an array, or several by name.

    Raises:
        CommandError: they can't be read.
    """
    import numpy as np
    import torch

    try:
        content = np.load(_standard_input() if file == "-" else file, allow_pickle=False)
        arrays: Any = content
        if isinstance(content, np.lib.npyio.NpzFile):
            with content:
                arrays = dict(content)
    except FileNotFoundError:
        raise CommandError(f"there is no file {file!r}") from None
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
        raise CommandError(f"{file!r} can't be read as arrays of numpy (.npy or .npz): {error}") from error

    def tensor(array: Any) -> torch.Tensor:
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise CommandError(f"{file!r} holds something else than arrays of numbers")
        return torch.from_numpy(array.astype(np.float32))

    return {name: tensor(array) for name, array in arrays.items()} if isinstance(arrays, dict) else tensor(arrays)


def _standard_input() -> io.BytesIO:
    """What comes in: arrays are read from where one can go back."""
    return io.BytesIO(sys.stdin.buffer.read())


def _write(output: str, arrays: dict[str, Any]) -> None:
    import numpy as np

    if Path(output).suffix != ".npz" and len(arrays) > 1:
        raise CommandError(f"there are {len(arrays)} outputs: give -o a name that ends with .npz, not {output!r}")
    with Path(output).open("wb") as file:
        if Path(output).suffix == ".npz":
            np.savez(file, **arrays)
        else:
            np.save(file, next(iter(arrays.values())))
