"""`unflatten convert`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unflatten.cli.faults import CommandError
from unflatten.cli.options import File, Rules, Step, Trust
from unflatten.cli.output import Screen
from unflatten.cli.progress import working

if TYPE_CHECKING:
    from nir_bridge import NIRModule

Out = Annotated[str, typer.Argument(metavar="OUT", show_default=False, help="OUT.pt2 or OUT.nir.")]
Batch = Annotated[
    int | None, typer.Option("--batch", min=1, show_default=False, help="For .pt2: steps of a batch of this size.")
]


def convert(
    file: File,
    output: Out,
    dynamics: Rules = None,
    dt: Step = None,
    batch: Batch = None,
    trust: Trust = False,
) -> None:
    """Turn a NIR graph into a program of one time step, or a program or network into a NIR graph.

    Programs take and return the state: y, state = step(x, state). Only what has an equation in NIR becomes NIR.

    unflatten convert network.nir step.pt2 --dynamics snntorch
    unflatten convert model.pt2 network.nir
    """
    from unflatten.cli.opening import anything, built, is_program

    kind = Path(output).suffix.lower()
    if kind not in (".pt2", ".nir"):
        raise CommandError(f"can't tell from {output!r} what to write; end it with .pt2 or .nir")
    found = anything(file, trust)
    if is_program(found):
        if kind == ".pt2":
            raise CommandError(f"{file!r} is an exported program already")
        _write_network(output, *_model(found), dynamics, dt)
    else:
        network = built(found, dynamics, dt)
        if kind == ".pt2":
            _write_program(output, network, batch)
        else:
            _write_network(output, network, (), {}, dynamics, dt)
    Screen(sys.stderr).line(f"wrote {output}")


def _model(program: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The modules of a program, and arguments for them."""
    from unflatten.cli.inputs import arguments
    from unflatten.cli.opening import nested

    (args, kwargs), _ = arguments(program, 0)
    return nested(program), args, kwargs


def _write_network(output: str, model: Any, args: Any, kwargs: Any, dynamics: str | None, dt: float | None) -> None:
    from nir_bridge import to_nir, write

    with working("converting"):
        graph = to_nir(model, args=args or None, kwargs=kwargs or None, dynamics=dynamics, dt=dt)
    write(graph, output)


def _write_program(output: str, network: NIRModule, batch: int | None) -> None:
    """Writes one step of a network."""
    import torch

    from unflatten.recording.export import tell_hidden

    size = () if batch is None else (batch,)
    given = []
    for port in network.input_ports:
        if port.shape is None:
            raise CommandError(f"the shape of input {port.name!r} is not known; give its Input node one")
        given.append(torch.zeros(*size, *port.shape))
    with working("exporting"):
        try:
            program = torch.export.export(network, (*given, network.initial_state(size)))
        except TypeError as error:
            tell_hidden(error)
            raise
    program.example_inputs = None  # whoever loads the file need not trust it for the state's class
    torch.export.save(program, output)
