"""Loading a program from a file."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import traceback
from typing import BinaryIO

import torch
from torch.export import ExportedProgram

from unflatten.errors import ProgramFileError, UnflattenError, UntrustedFileError
from unflatten.files.archive import Contents, contents
from unflatten.files.kinds import Kind, kind_of, opened
from unflatten.files.pickles import check_pickle
from unflatten.files.texts import check_text

_UNREGISTERED = re.compile(r"Deserializing (([A-Za-z_][\w.]*)\.\w+) in pytree is not registered")
_CAUSE = re.compile(r"^(\w[\w.]*(?:Error|Exception)): (.*)$", re.MULTILINE)


def load(source: str | os.PathLike[str] | BinaryIO, *, trust: bool = False) -> ExportedProgram:
    """The exported program that a file holds, as `torch.export.save` wrote it.

    Unlike `torch.export.load`, this runs nothing that the file brings: pickles may hold tensors and plain values,
    operators have to be operators, and expressions arithmetic. Time is linear in the size of the file.

    Args:
        source: the path of a file, whatever its name ends with, or an open file.
        trust: load all the same what could run code: examples of inputs that are objects of other classes, objects of
            C++ classes, compiled libraries, packages whose containers the program takes or returns. Only for files of
            people whom you would let use your machine.

    Raises:
        ProgramFileError: there is no such file, or it is damaged, or holds something else, or comes from a torch that
            is too old or too new.
        UntrustedFileError: it holds what could run code, and `trust` is False.

    Example:
        >>> import io, torch
        >>> from unflatten import files
        >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
        >>> file = io.BytesIO()
        >>> torch.export.save(program, file)
        >>> torch.equal(files.load(file).module()(-torch.ones(2)), torch.zeros(2))
        True
    """
    name = repr(str(source)) if isinstance(source, str | os.PathLike) else "the file"
    with opened(source, name) as file:
        _check_kind(file, name)
        try:
            found = contents(file)
            if not trust:
                _check(found)
        except UntrustedFileError as error:
            raise UntrustedFileError(
                f"{name} is not loaded: {error}. If you trust whoever wrote it, load it with trust=True (--trust)."
            ) from error
        except ProgramFileError as error:
            raise type(error)(f"{name} can't be read as an exported program: {error}") from error
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise ProgramFileError(f"{name} can't be read as an exported program: it is damaged ({error})") from error
        return _made(found, name, trust)


def _check_kind(file: BinaryIO, name: str) -> None:
    kind = kind_of(file)
    if kind is Kind.EMPTY:
        raise ProgramFileError(f"{name} is empty")
    if kind is not Kind.ZIP:
        raise ProgramFileError(f"{name} is no exported program: it is {kind.value}")


def _check(found: Contents) -> None:
    """Looks at all that could run code."""
    if found.objects:
        raise UntrustedFileError(f"{found.objects[0]} can only be loaded by running code")
    for record in found.texts:
        check_text(record.name, record.read())
    for record in found.pickles:
        check_pickle(record.name, record.read())


def _made(found: Contents, name: str, trust: bool) -> ExportedProgram:
    tried: set[str] = set()
    while True:
        made = _attempt(found, name, trust, tried)
        if made is not None:
            return made


def _attempt(found: Contents, name: str, trust: bool, tried: set[str]) -> ExportedProgram | None:
    """The program, or None where a module has been imported now that it needs."""
    try:
        return found.load()
    except UnflattenError:
        raise
    except Exception as error:  # torch raises whatever it runs into
        missing = _UNREGISTERED.search(str(error))
        if missing is None:
            raise ProgramFileError(f"{name} can't be loaded: {_reason(error)}{_versions(found)}") from error
        kind, module = missing.groups()
        if module in tried or not (trust and _imported(module)):
            raise ProgramFileError(
                f"{name} can't be loaded: its program takes or returns a {kind}, which torch knows only after "
                f"`import {module}`; trust=True (--trust) imports it where it is installed"
            ) from error
        tried.add(module)
        return None


def _imported(module: str) -> bool:
    """Imports a module that a trusted file names: its containers are known to torch from then on."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _reason(error: BaseException) -> str:
    """The innermost message: torch wraps the text of one traceback into another."""
    causes = _CAUSE.findall(str(error))
    text = causes[-1][1] if causes else next(iter(str(error).splitlines()), "")
    return text or traceback.format_exception_only(error)[-1].strip()


def _versions(found: Contents) -> str:
    """By which torch a program was written, where that is another one."""
    try:
        written = json.loads(found.texts[0].read()).get("torch_version")
    except (ValueError, AttributeError, RuntimeError, io.UnsupportedOperation):
        return ""
    if not isinstance(written, str) or written == torch.__version__:
        return ""
    return f". It was written by torch {written}, and this is torch {torch.__version__}: load it with that one."
