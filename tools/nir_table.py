"""Writes the table of what modules and functions of torch mean in NIR, from the registry that `to_nir` uses.

    python tools/nir_table.py docs/reference/nir-export.md

`tests/unit/nir/test_table.py` checks that the page is current.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from nir_bridge.exporting.functions import FUNCTIONS
from nir_bridge.exporting.modules.own import OWN
from nir_bridge.exporting.modules.torch_nn import TORCH

INSIDE = {nn.Module, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict}
VERSION = ".".join(torch.__version__.split(".")[:2])
HEAD = f"""# What modules and functions mean in NIR

`to_nir` looks each module up in the caller's `module_map`, then here, by its class and the classes that it derives
from. Classes with a `forward` of their own are looked into instead. `tools/nir_table.py` wrote these tables, of all
modules and functions of torch {VERSION}.
"""
ERROR = "looked into: an error that names the function without a meaning; map it, or leave it out"


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *_modules(), "", *_functionals(), "", *_functions(), ""])


def _table(title: str, first: str, rows: Iterator[tuple[str, str]]) -> list[str]:
    return [f"## {title}", "", f"| {first} | in NIR |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]


def _modules() -> list[str]:
    own = (
        (f"`{kind.__name__}`", entry.meaning) for kind, entry in sorted(OWN.items(), key=lambda item: item[0].__name__)
    )
    return [
        *_table("Modules of torch.nn", "module", _torch_modules()),
        "",
        *_table("Modules that `from_nir` makes", "module", own),
    ]


def _torch_modules() -> Iterator[tuple[str, str]]:
    for name, kind in sorted(vars(nn).items()):
        if isinstance(kind, type) and issubclass(kind, nn.Module) and not name.startswith("_"):
            entry = TORCH.get(kind)
            text = entry.meaning if entry else ("looked into" if kind in INSIDE else ERROR)
            yield f"`{name}`", text


def _functionals() -> list[str]:
    names = sorted(
        name
        for name, value in vars(F).items()
        if callable(value)
        and not name.startswith("_")
        and not name.endswith("_with_indices")
        and not inspect.isclass(value)
        and (getattr(value, "__module__", None) in (F.__name__, None) or name in FUNCTIONS)
    )
    return _table(
        "Functions of torch.nn.functional",
        "function",
        ((f"`{name}`", FUNCTIONS[name].meaning if name in FUNCTIONS else "an error") for name in names),
    )


def _functions() -> list[str]:
    grouped: dict[str, list[str]] = {}
    for name, rule in FUNCTIONS.items():
        grouped.setdefault(rule.meaning, []).append(f"`{name}`")
    rows = ((", ".join(sorted(names)), text) for text, names in grouped.items())
    return [
        *_table("Functions and methods of tensors", "function", rows),
        "",
        "Names with a dot in front are properties. Every other function is an error that names it, the module that",
        "calls it, and what to do.",
    ]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
