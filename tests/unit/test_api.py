"""The public names."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import unflatten
from unflatten import errors

PUBLIC = {
    "Bypass",
    "GraphView",
    "Info",
    "NodeBypass",
    "NodeSwap",
    "UnflattenError",
    "UnflattenedModule",
    "bypass",
    "bypass_node",
    "diff",
    "export",
    "info",
    "record",
    "restore",
    "source",
    "swap",
    "swap_node",
    "unflatten",
}


def test_the_package_offers_these_names_and_documents_each() -> None:
    assert set(unflatten.__all__) == PUBLIC
    for name in PUBLIC:
        assert inspect.getdoc(getattr(unflatten, name)), f"{name} has no docstring"


def test_every_error_is_of_the_family_and_documented() -> None:
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    for error in found:
        assert issubclass(error, errors.UnflattenError)
        assert inspect.getdoc(error)


@pytest.mark.parametrize("package", ["unflatten", "nir_bridge"])
def test_importing_is_quiet_and_needs_no_optional_library(package: str) -> None:
    code = (
        f"import sys, {package}\n"
        "extra = {'nir', 'hypothesis', 'matplotlib', 'rich', 'typer', 'transformers', 'networkx'}\n"
        "assert not extra & set(sys.modules), extra & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
