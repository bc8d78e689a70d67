"""The records of a program's file, read by the reader that torch will load it with.

Two readers of zip archives can see two different contents in one file, so that what one of them saw says nothing
of what the other one gives.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from torch.export import ExportedProgram
from torch.export.pt2_archive import PT2ArchiveReader

from unflatten import _torch
from unflatten.errors import ProgramFileError

_PARTS = {
    "serialized_exported_program.json": "the program",
    "serialized_state_dict.pt": "the state",
    "serialized_constants.pt": "the constants",
    "serialized_example_inputs.pt": "the example inputs",
}
_TEXT = next(iter(_PARTS))


@dataclass(frozen=True)
class Record:
    """A part of a file that could run code.

    Attributes:
        name: what it is, for messages.
        read: gives its bytes.
    """

    name: str
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Contents:
    """What is in a file.

    Attributes:
        texts: the programs, as JSON.
        pickles: what `torch.load` will read.
        objects: what only code can load: libraries, opaque objects, objects of C++ classes.
        load: makes the program.
    """

    texts: tuple[Record, ...]
    pickles: tuple[Record, ...]
    objects: tuple[str, ...]
    load: Callable[[], ExportedProgram]


def contents(file: BinaryIO) -> Contents:
    """What a file holds, in either of torch's formats.

    Raises:
        ProgramFileError: it is an archive of something else.
    """
    try:
        reader = PT2ArchiveReader(file)
    except (RuntimeError, AssertionError, OSError, ValueError) as error:
        return _old_contents(file, error)
    names = reader.get_file_names()
    payloads = [each for name in names if name.endswith("_config.json") for each in _payloads(reader, name)]
    texts = [name for name in names if name.startswith("models/")]
    pickles = [name for name in names if name.startswith("data/") and name.endswith(".pt")]
    pickles += [name for name, kind in payloads if kind == "pickle"]
    objects = [name for name, kind in payloads if kind == "object"]
    objects += [name for name in names if name.startswith("data/aotinductor/")]
    if not texts:
        raise ProgramFileError("the archive holds no exported program")

    def record(name: str) -> Record:
        return Record(name, lambda: reader.read_bytes(name))

    return Contents(
        tuple(map(record, texts)), tuple(map(record, dict.fromkeys(pickles))), tuple(objects), lambda: _loaded(file)
    )


def _payloads(reader: PT2ArchiveReader, name: str) -> Iterator[tuple[str, str]]:
    """The records that a table of weights or constants names, and how torch loads each."""
    folder = "/".join(name.split("/")[:2])  # wherever the table is: names of models may hold slashes
    for payload in json.loads(reader.read_bytes(name).decode())["config"].values():
        path: Any = payload["path_name"]
        if path.startswith(("custom_obj_", "opaque_obj_")):
            yield os.path.join(folder, path), "object"  # noqa: PTH118  # as torch finds it
        elif payload["use_pickle"]:
            yield os.path.join(folder, path), "pickle"  # noqa: PTH118


def _loaded(file: BinaryIO) -> ExportedProgram:
    file.seek(0)
    programs = _torch.load_archive(file)
    if "model" not in programs and len(programs) != 1:
        raise ProgramFileError(f"the archive holds several programs, and none is called 'model': {', '.join(programs)}")
    return programs["model"] if "model" in programs else next(iter(programs.values()))


def _old_contents(file: BinaryIO, error: Exception) -> Contents:
    """What a file of torch 2.7 and before holds."""
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        raise ProgramFileError("the archive is cut off or damaged: its table of contents is missing") from error
    names = archive.namelist()
    if _TEXT not in names:
        raise ProgramFileError(_other(names)) from error
    missing = [what for name, what in _PARTS.items() if name not in names]
    if missing:
        raise ProgramFileError(f"the archive lacks {', '.join(missing)}")
    parts = {name: archive.read(name) for name in _PARTS}
    records = [Record(_PARTS[name], lambda name=name: parts[name]) for name in _PARTS]  # type: ignore[misc]
    return Contents((records[0],), tuple(records[1:]), (), lambda: _torch.load_parts(*parts.values()))


def _other(names: list[str]) -> str:
    """What an archive is that is no exported program."""
    last = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in last:
        return "this is a TorchScript archive, not an exported program; export the model with torch.export.export"
    if "data.pkl" in last:
        return (
            "this is what torch.save wrote, not an exported program; export the model with torch.export.export, and "
            "save that with torch.export.save"
        )
    return "the archive holds no exported program"
