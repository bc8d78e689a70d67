"""The source writer over real architectures: `python -m tests.benchmarks.source MODELS.py [NAME ...]`.

`MODELS.py` has a dict `BUILDERS` from names to functions that give `(model, args, kwargs, dynamic_shapes)`. For each
model, exported by `unflatten.export` and by `torch.export.export`: whether the loaded package gives the program's
outputs, gradients and state bit for bit, how many classes were written for how many the model has, whether ruff finds
nothing, and whether what is loaded is written as the same text again.
"""

from __future__ import annotations

import copy
import importlib.util
import logging
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

import unflatten
from tests.support.comparing import differences
from unflatten import source


def builders(file: str) -> dict[str, Callable[[], tuple[Any, ...]]]:
    """The models of a file."""
    spec = importlib.util.spec_from_file_location("benchmark_models", file)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmark_models"] = module
    spec.loader.exec_module(module)
    found: dict[str, Callable[[], tuple[Any, ...]]] = module.BUILDERS
    return found


def run(model: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """Outputs, gradients by name, and the buffers afterwards."""
    model = copy.deepcopy(model)
    args, kwargs = copy.deepcopy((args, kwargs))
    torch.manual_seed(1)
    out = model(*args, **kwargs)
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    tensors = [leaf for leaf in leaves if leaf.requires_grad]
    if tensors:
        torch.stack([tensor.double().square().sum() for tensor in tensors]).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters(remove_duplicate=False)}
    return leaves, gradients, dict(model.state_dict())


def called_classes(model: nn.Module, args: Any, kwargs: Any) -> set[type]:
    """The classes of the modules that run, without leaves and containers of torch.nn."""
    found: set[type] = set()
    handles = [
        module.register_forward_pre_hook(lambda module, _: found.add(type(module))) for module in model.modules()
    ]
    with torch.no_grad():
        copy.deepcopy(model)(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        model(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    for handle in handles:
        handle.remove()
    inner = {type(module) for module in model.modules() if any(type(child) in found for child in module.children())}
    containers = {nn.Sequential}
    return {kind for kind in found if getattr(nn, kind.__name__, None) is not kind or kind in inner - containers}


def _is_leaf_in(kind: type, text: str) -> bool:
    """Whether a class of torch.nn that holds others was written as torch's own, so that it is a leaf."""
    return getattr(nn, kind.__name__, None) is kind and f"\nclass {kind.__name__}(" not in text


def ruff(folder: Path) -> str:
    """What ruff finds with its default settings."""
    command = [str(Path(sys.executable).parent / "ruff")]
    options = ["--isolated", "--no-cache", str(folder)]
    checked = subprocess.run([*command, "check", "-q", *options], capture_output=True, text=True, check=False)
    shown = subprocess.run([*command, "format", "--diff", *options], capture_output=True, text=True, check=False)
    return checked.stdout + (shown.stdout + shown.stderr if shown.returncode else "")


def measure(build: Callable[[], tuple[Any, ...]], recorded: bool, folder: Path) -> Mapping[str, Any]:
    """The figures of one model."""
    torch.manual_seed(0)
    model, args, kwargs, _ = build()
    originals = called_classes(copy.deepcopy(model), args, kwargs)
    export: Any = unflatten.export if recorded else torch.export.export
    program = export(copy.deepcopy(model), copy.deepcopy(args), copy.deepcopy(kwargs) or None)
    expected = run(unflatten.unflatten(program, copy_state=True), args, kwargs)
    target = source.write(program, folder)
    loaded = source.load(target)
    given = run(loaded, args, kwargs)
    problems: list[Any] = [
        problem
        for want, have, where in zip(expected, given, ("outputs", "gradients", "state"), strict=True)
        for problem in differences(want, have, where)
    ]
    if list(expected[2]) != list(given[2]):
        problems.append("the state dict has another order")
    text = (target / "model.py").read_text()
    again = source.text_of(unflatten.export(loaded, copy.deepcopy(args), copy.deepcopy(kwargs) or None))
    return {
        "problems": problems,
        "classes": text.count("\nclass "),
        "originals": len([kind for kind in originals if not _is_leaf_in(kind, text)]),
        "ruff": ruff(target),
        "same": text == again,
        "skips": text.count("# fmt: skip"),
        "lines": text.count("\n"),
        "texts": (text, again),
    }


def main(file: str, names: list[str]) -> int:
    """Prints the table; 1 if anything is not as it should be."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    found = builders(file)
    bad = 0
    base = Path(tempfile.mkdtemp())
    print(f"{'model':20} {'export':7} {'equal':6} {'classes':>9} {'ruff':5} {'same text':9} {'lines':>5}")
    for name in names or list(found):
        for recorded in (True, False):
            how = "ours" if recorded else "torch"
            try:
                row = measure(found[name], recorded, base / f"{name}_{how}")
            except Exception:  # noqa: BLE001 - the table goes on
                bad += 1
                print(f"{name:20} {how:7} {traceback.format_exc().strip().splitlines()[-1][:150]}", flush=True)
                continue
            fine = not row["problems"] and not row["ruff"] and row["same"]
            fine = fine and row["classes"] <= 1.3 * row["originals"]
            bad += not fine
            marks = ["yes" if mark else "NO" for mark in (not row["problems"], not row["ruff"], row["same"])]
            counts = f"{row['classes']}/{row['originals']}"
            print(f"{name:20} {how:7} {marks[0]:6} {counts:>9} {marks[1]:5} {marks[2]:9} {row['lines']:5}", flush=True)
            if names:
                _details(row, base)
    shutil.rmtree(base)
    return int(bad > 0)


def _details(row: Mapping[str, Any], base: Path) -> None:
    """What is wrong with a model, for one that was asked for by name."""
    import difflib

    print("\n".join(row["problems"][:5]), row["ruff"][:1500])
    first, again = (text.splitlines() for text in row["texts"])
    print("\n".join(list(difflib.unified_diff(first, again, "written", "again", lineterm="", n=1))[:60]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
