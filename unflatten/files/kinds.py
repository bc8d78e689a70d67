"""Opening files, and telling what they are by what they hold, whatever their names. Needs no torch: it is quick."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from unflatten.errors import ProgramFileError

_ZIP = b"PK\x03\x04"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_PICKLE = b"\x80"
_LARGEST_BLOCK = 1 << 20
"""HDF5 files may begin with a block of something else, whose size is a power of two."""


class Kind(Enum):
    """What a file is; the value is how messages call it."""

    EMPTY = "empty"
    ZIP = "a zip archive, as exported programs are"
    HDF5 = "an HDF5 file, as NIR graphs are"
    PICKLE = "a bare pickle"
    UNKNOWN = "neither a zip archive, as exported programs are, nor an HDF5 file, as NIR graphs are"


@contextmanager
def opened(source: str | os.PathLike[str] | BinaryIO, name: str) -> Iterator[BinaryIO]:
    """A file, at its start.

    Args:
        source: its path, or the file itself, which stays open.
        name: how messages call it.

    Raises:
        ProgramFileError: it can't be opened.
    """
    if not isinstance(source, str | os.PathLike):
        source.seek(0)
        yield source
        return
    path = Path(source)
    try:
        if path.is_dir():
            raise ProgramFileError(f"{name} is a directory; give a file")
        file = path.open("rb")
    except FileNotFoundError:
        raise ProgramFileError(f"there is no file {name}") from None
    except (OSError, ValueError) as error:  # a name may hold characters that no file name can
        raise ProgramFileError(f"{name} can't be opened: {getattr(error, 'strerror', None) or error}") from error
    with file:
        yield file


def kind_of(file: BinaryIO) -> Kind:
    r"""What an open file is, by its first bytes; the file is at its start afterwards.

    >>> import io
    >>> kind_of(io.BytesIO(b"PK\x03\x04...")).name, kind_of(io.BytesIO(b"")).name
    ('ZIP', 'EMPTY')
    """
    file.seek(0)
    start = file.read(8)
    found = Kind.UNKNOWN
    if not start:
        found = Kind.EMPTY
    elif start.startswith(_ZIP):
        found = Kind.ZIP
    elif _is_hdf5(file):
        found = Kind.HDF5
    elif start.startswith(_PICKLE):
        found = Kind.PICKLE
    file.seek(0)
    return found


def _is_hdf5(file: BinaryIO) -> bool:
    offset = 0
    while offset <= _LARGEST_BLOCK:
        file.seek(offset)
        start = file.read(len(_HDF5))
        if start == _HDF5:
            return True
        if len(start) < len(_HDF5):
            return False
        offset = offset * 2 or 512
    return False
