"""Files that commands are given: programs and networks, told apart by content."""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unflatten.cli.faults import CommandError
from unflatten.cli.progress import working
from unflatten.errors import ProgramFileError
from unflatten.files.kinds import Kind, kind_of, opened

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from nir_bridge import NIRModule

STDIN = "-"


def program(file: str, trust: bool) -> ExportedProgram:
    """The program of a file.

    Raises:
        CommandError: it holds a NIR graph.
        ProgramFileError: it can't be read.
    """
    with _on_disk(file) as path:
        if _kind(path, file) is Kind.HDF5:
            raise CommandError(
                f"{file!r} is a NIR graph, and this command is for exported programs: "
                "'unflatten convert' makes one of it"
            )
        return _program(path, file, trust)


def network(file: str, dynamics: str | None, dt: float | None) -> NIRModule:
    """The network of a NIR file.

    Raises:
        CommandError: it holds something else.
        NIRBridgeError: it can't be read or built.
    """
    with _on_disk(file) as path:
        if _kind(path, file) is not Kind.HDF5:
            raise CommandError(f"{file!r} is an exported program, and this command is for NIR graphs")
        return built(graph(path, file), dynamics, dt)


def anything(file: str, trust: bool) -> Any:
    """The program of a file, or its NIR graph."""
    with _on_disk(file) as path:
        return graph(path, file) if _kind(path, file) is Kind.HDF5 else _program(path, file, trust)


def is_program(found: Any) -> bool:
    """Whether `anything` found a program."""
    from torch.export import ExportedProgram

    return isinstance(found, ExportedProgram)


def graph(path: Path, file: str) -> Any:
    """The NIR graph of a file."""
    from nir_bridge.errors import FileError
    from nir_bridge.files import read

    try:
        return read(path)
    except FileError as error:
        raise type(error)(str(error).replace(str(path), file)) from error


def built(found: Any, dynamics: str | None, dt: float | None) -> NIRModule:
    """The module of a NIR graph.

    Raises:
        CommandError: it is a single node.
    """
    from nir_bridge import NIRModule, from_nir

    with working("building"):
        made = from_nir(found, dynamics=dynamics, dt=dt)
    if not isinstance(made, NIRModule):
        raise CommandError(f"the file holds a single {type(found).__name__} and no graph, so there is no network")
    return made


def nested(found: ExportedProgram) -> Any:
    """The modules of a program."""
    from unflatten import unflatten

    with working("unflattening"):
        return unflatten(found)


def _program(path: Path, file: str, trust: bool) -> ExportedProgram:
    _needs_content(path, file)
    from unflatten.files import load

    importlib.import_module("nir_bridge.state")  # programs of single steps take and return states
    try:
        with working(f"reading {file}"):
            found = load(path, trust=trust)
    except ProgramFileError as error:
        raise type(error)(str(error).replace(repr(str(path)), repr(file))) from error
    if not any(node.op.startswith("call") for node in found.graph.nodes):
        raise CommandError(f"{file!r} holds an empty program: it computes nothing")
    return found


def _kind(path: Path, file: str) -> Kind:
    with opened(path, repr(file)) as stream:
        return kind_of(stream)


def _needs_content(path: Path, file: str) -> None:
    """Refuses what is neither, before torch is imported."""
    kind = _kind(path, file)
    if kind is Kind.EMPTY:
        raise ProgramFileError(f"{file!r} is empty")
    if kind is not Kind.ZIP:
        raise ProgramFileError(f"{file!r} is no file for unflatten: it is {kind.value}")


@contextmanager
def _on_disk(file: str) -> Iterator[Path]:
    """The file, or what comes in from standard input, or from a pipe that has a name, as one."""
    if file == STDIN and sys.stdin.isatty():
        raise CommandError("nothing comes in on standard input: pipe a file into the command, or name one")
    if file != STDIN and not Path(file).is_fifo():
        yield Path(file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "piped"
        with path.open("wb") as copy:
            if file == STDIN:
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                with Path(file).open("rb") as pipe:
                    shutil.copyfileobj(pipe, copy)
        yield path
