"""How many of a model's modules come back as genuine ones, and whether they compute the same.

    python -m tests.benchmarks.leaves FOLDER [--recorded]

With `--recorded`, models are exported by `unflatten.export`. The folder holds a `models.py` with `BUILDERS`, a
mapping, and `build(name)`, which gives a model, arguments, keyword arguments and dynamic shapes.
"""

from __future__ import annotations

import copy
import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

import unflatten
from tests.support.comparing import differences
from unflatten.leaves.registry import dotted, for_class


def captured(model: nn.Module, names: list[str], args: Any, kwargs: Any) -> dict[str, tuple[Any, Any, Any]]:
    """For each module, arguments and result of its first call."""
    calls: dict[str, tuple[Any, Any, Any]] = {}
    held = []
    for name in names:

        def keep(_: nn.Module, given: Any, keywords: Any, result: Any, name: str = name) -> None:
            calls.setdefault(name, copy.deepcopy((given, keywords, result)))

        held.append(model.get_submodule(name).register_forward_hook(keep, with_kwargs=True))
    with torch.no_grad():
        model(*args, **kwargs)
    for handle in held:
        handle.remove()
    return calls


def row(name: str, model: nn.Module, args: Any, kwargs: Any, export: Callable[..., Any]) -> tuple[str, int, int]:
    """One line of the table, and how many of how many modules are genuine."""
    program = export(copy.deepcopy(model), args, kwargs)
    nested = unflatten.unflatten(program)
    wanted = [path for path, module in model.named_modules() if path and for_class(dotted(type(module)))]
    calls = captured(copy.deepcopy(model), wanted, args, kwargs)
    genuine = [path for path in calls if type(nested.get_submodule(path)) is type(model.get_submodule(path))]
    lost = Counter(type(model.get_submodule(path)).__name__ for path in calls if path not in genuine)
    wrong = []
    with torch.no_grad():
        for path in genuine:
            given, keywords, result = calls[path]
            random = model.training and isinstance(model.get_submodule(path), _DropoutNd)
            if not random and differences(result, nested.get_submodule(path)(*given, **keywords)):
                wrong.append(path)
    share = len(genuine) / max(1, len(calls))
    line = f"| {name} | {len(calls)} | {len(genuine)} | {share:.1%} | {len(wrong)} | {dict(lost)} |"
    return line, len(genuine), len(calls)


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, sys.argv[1])
    models: Any = importlib.import_module("models")
    print("| model | modules | genuine | share | wrong | lost |")
    print("|---|---|---|---|---|---|")
    export = unflatten.export if "--recorded" in sys.argv else torch.export.export
    found = total = 0
    for name in models.BUILDERS:
        model, args, kwargs, _ = models.build(name)
        line, genuine, modules = row(name, model, args, kwargs, export)
        found, total = found + genuine, total + modules
        print(line, flush=True)
    print(f"| all | {total} | {found} | {found / total:.1%} | | |")


if __name__ == "__main__":
    main()
