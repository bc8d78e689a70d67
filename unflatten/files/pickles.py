"""Pickles, looked at before they are loaded."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile

import torch

from unflatten.errors import ProgramFileError, UntrustedFileError

_FAULTS = (pickle.UnpicklingError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError, OSError)


def check_pickle(name: str, data: bytes) -> None:
    """Makes sure that a pickle holds nothing but tensors and plain values.

    It is loaded as `torch.load` does with `weights_only`: what it names is looked up in a list, and never imported.

    Raises:
        UntrustedFileError: it names something else.
        ProgramFileError: it is damaged.
    """
    if not data:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unusual pickles, which are refused or are harmless
            torch.load(io.BytesIO(data), weights_only=True)
    except _FAULTS as error:
        found = _named(data)
        if found:
            raise UntrustedFileError(
                f"{name} is a pickle that asks for {', '.join(found)}, which may run any code as it is loaded"
            ) from error
        if isinstance(error, pickle.UnpicklingError):
            raise UntrustedFileError(f"{name} is a pickle that does more than hold tensors") from error
        raise ProgramFileError(
            f"{name} can't be loaded: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from error


def _named(data: bytes) -> list[str]:
    """What a pickle names that is not known to be harmless."""
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data)))[:8]
    except (*_FAULTS, zipfile.BadZipFile):
        return []
