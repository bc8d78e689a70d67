"""Writing a tree of modules as a Python package, and loading one."""

from __future__ import annotations

import hashlib
import importlib.util
import keyword
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn
from torch.export import ExportedProgram

from unflatten.build import unflatten
from unflatten.errors import FolderError, SourceError
from unflatten.modules import UnflattenedModule
from unflatten.source.arguments import callee_of
from unflatten.source.checks import CHECK, REQUIRE, checks_of
from unflatten.source.constructors import Constructors
from unflatten.source.containers import Imports, found_module
from unflatten.source.dtypes import Checked
from unflatten.source.graphs import Graphs
from unflatten.source.grouping import Classes
from unflatten.source.package import CONSTANTS as MOVE_CONSTANTS
from unflatten.source.package import INIT, README
from unflatten.source.reading import Reading, bodies_of, place_of
from unflatten.source.rendering import CONSTANTS, Renderer
from unflatten.source.state import safetensors, save_state
from unflatten.source.text import identifier, prose, quoted

FILES = ("__init__.py", "model.py", "model.safetensors", "README.md")


def write(module_or_program: nn.Module | ExportedProgram, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Writes a model as a Python package that needs only torch, and safetensors to read its state.

    Args:
        module_or_program: what `unflatten` or `from_nir` returned, or a program, which is unflattened.
        folder: where to. It is made whole or not at all.
        overwrite: write into a folder that holds something: a package's files are replaced, others stay.

    Returns:
        The folder.

    Raises:
        SourceError: something in the model has no Python of its own, or safetensors is missing.
        FolderError: there is something in the folder, or it can't be written.

    Example:
        >>> import tempfile, torch, unflatten
        >>> from unflatten import source
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
        >>> program = unflatten.export(model, (torch.ones(1, 4),))
        >>> folder = source.write(program, tempfile.mkdtemp() + "/net")
        >>> sorted(file.name for file in folder.iterdir())
        ['README.md', '__init__.py', 'model.py', 'model.safetensors']
        >>> torch.equal(source.load(folder)(torch.ones(1, 4)), model(torch.ones(1, 4)))
        True
    """
    target = Path(folder)
    target = target.resolve() if target.is_symlink() else target
    safetensors()
    _refuse_foreign(target, overwrite)
    tree = as_tree(module_or_program)
    reading = Reading(tree.root)
    text, name = _model_text(reading, tree)
    init = INIT.format(root=name, names=_names(name), more=tree.more(name), remark=_remark(target.resolve().name))
    try:
        _publish(
            {"model.py": text, "__init__.py": init, "README.md": _readme(name, target.resolve().name)}, reading, target
        )
    except OSError as error:
        raise FolderError(f"{target} can't be written ({error}): choose another folder") from error
    return Path(folder)


def _publish(files: Mapping[str, str], reading: Reading, target: Path) -> None:
    """Makes the folder aside, and puts it in its place once it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, text in files.items():
            (made / name).write_text(text, encoding="utf-8")
        save_state(reading, made / "model.safetensors")
        (made / "model.safetensors").chmod((made / "model.py").stat().st_mode)  # safetensors hides it from others
        made.chmod(0o755)
        _put(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _readme(root: str, folder: str) -> str:
    package = identifier(folder, "model")
    hint = "" if package == folder else f", and renamed to `{package}`, which Python can import"
    return README.format(root=root, package=package, renamed=hint)


def _remark(folder: str) -> str:
    """What tells linters that the folder's name was chosen by somebody, where packages go by other names."""
    usual = re.fullmatch("[a-z_][a-z0-9_]*", folder) and not keyword.iskeyword(folder)
    return "" if usual else "# ruff: noqa: N999\n"


def _names(root: str) -> str:
    """What the package offers, sorted as linters have it: classes first, then functions."""
    return ", ".join(quoted(name) for name in sorted([root, "load"], key=lambda name: (not name[0].isupper(), name)))


def text_of(module_or_program: nn.Module | ExportedProgram) -> str:
    """What `write` puts into `model.py`."""
    tree = as_tree(module_or_program)
    return _model_text(Reading(tree.root), tree)[0]


def load(folder: str | Path) -> nn.Module:
    """The model of a written package, with its state.

    The package's code runs: load only folders that you trust. It is imported under a name of its own, so that
    several packages can be loaded. Models pickle within the process; to exchange pickles with another, import the
    package by its own name in both.

    Raises:
        FolderError: the folder holds no written package.
    """
    path = Path(folder).resolve()
    if not all((path / name).is_file() for name in FILES[:3]):
        raise FolderError(f"{folder} is no written package: it has to have {', '.join(FILES[:3])}")
    safetensors()
    made: nn.Module = _imported(path).load()
    return made


def _imported(path: Path) -> ModuleType:
    content = b"".join((path / name).read_bytes() for name in FILES[:2])
    name = f"unflatten_source_{hashlib.sha256(str(path).encode() + content).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path / "__init__.py", submodule_search_locations=[str(path)])
    if spec is None or spec.loader is None:
        raise FolderError(f"{path} can't be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@dataclass(frozen=True, slots=True)
class Tree:
    """What is to be written.

    Attributes:
        root: the tree of modules.
        as_dicts: classes of mappings for which plain dicts stand in the written code.
        more: gives, for the name of the root's class, code that goes into the package's `__init__.py`.
    """

    root: UnflattenedModule
    as_dicts: frozenset[type] = frozenset()
    more: Callable[[str], str] = lambda _: ""


def as_tree(given: Any) -> Tree:
    """The tree to be written.

    Raises:
        SourceError: there is none.
    """
    if isinstance(given, ExportedProgram):
        return Tree(unflatten(given))
    if hasattr(type(given), "source_tree"):
        made: Tree = given.source_tree()
        return made
    if not isinstance(given, UnflattenedModule):
        raise SourceError(
            f"a {type(given).__name__} can't be written: give what unflatten.unflatten returned, or an exported program"
        )
    return Tree(given)


def _model_text(reading: Reading, tree: Tree) -> tuple[str, str]:
    classes = Classes.of_parts(reading.read())
    root, place = classes.order[-1], place_of(reading.root)
    imports = Imports(as_dicts=tree.as_dicts)
    checked = Checked(bodies_of, lambda module, step: callee_of(reading.root, module, step))
    typed = checked.places(reading.root, 0) if bodies_of(reading.root) else set()
    checks = checks_of(place, root.first.signature, typed)
    fixed = any(place_of(module).fixed for module in reading.root.modules() if isinstance(module, UnflattenedModule))
    graphs = Graphs(device=reading.device, taken=frozenset(group.name for group in classes.order))
    renderer = Renderer(Constructors(classes, imports), imports, checks, reading.root.training, fixed, graphs)
    body = ["\n".join(renderer.lines(group)) for group in classes.order]
    functions = renderer.functions()
    helpers = [
        text.strip() for text, name in ((CHECK, "check("), (REQUIRE, "require(")) if any(name in c for c in checks)
    ]
    if any(f"return {CONSTANTS}(super()" in text for text in body):
        helpers.append(MOVE_CONSTANTS.strip())
    whole = [*helpers, *functions, *body]
    text = "\n\n\n".join(["\n".join(_header(root.name, imports, "\n".join(whole))), *whole])
    return text + "\n", root.name


def _header(name: str, imports: Imports, code: str) -> Iterator[str]:
    if imports.operators:
        yield f'"""The classes of {name}.'
        yield ""
        yield "They use operators that have to be registered first:"
        for operator, module in sorted(imports.operators.items()):
            yield f"`{prose(operator)}`{f' by importing {prose(module)}' if module else ''}."
        yield '"""'
    else:
        yield f'"""The classes of {name}."""'
    yield ""
    registering = {module for module in imports.operators.values() if found_module(module)}
    standard = {module for module in imports.modules if not module.startswith("torch")}
    standard |= {"importlib"} if registering else set()
    yield from (f"import {module}" for module in sorted(standard))
    if standard:
        yield ""
    wanted = {module: f"import {module}" for module in imports.modules - standard}
    if "torch." in code:
        wanted["torch"] = "import torch"
    if "F." in code:
        wanted["torch.nn.functional"] = "import torch.nn.functional as F"
    yield from (line for _, line in sorted(wanted.items()))
    yield "from torch import nn"
    yield from imports.lines()
    if registering:
        yield ""
    yield from (f"importlib.import_module({quoted(module)})" for module in sorted(registering))


def _refuse_foreign(target: Path, overwrite: bool) -> None:
    if not target.exists() or overwrite:
        return
    found = sorted(entry.name for entry in target.iterdir()) if target.is_dir() else [target.name]
    if found:
        what = "a package that was written before, perhaps edited since" if _is_ours(target) else "something else"
        raise FolderError(
            f"{target} holds {what} ({', '.join(found[:5])}): choose another folder, or pass "
            "overwrite=True (--overwrite), which replaces the package's files only"
        )


def _is_ours(target: Path) -> bool:
    """Whether there is nothing in a folder but a package that was written before."""
    found = {entry.name for entry in target.iterdir()} if target.is_dir() else {target.name}
    return not found or set(FILES[:3]) <= found <= {*FILES, "__pycache__"}


def _put(made: Path, target: Path) -> None:
    """Puts a package where it goes; what somebody else keeps there stays."""
    if not target.is_dir() or _is_ours(target):
        _replace(made, target)
        return
    for name in FILES:
        (made / name).replace(target / name)


def _replace(made: Path, target: Path) -> None:
    """Puts a folder in the place of another."""
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent)) / "old"
        target.rename(old)
    try:
        made.rename(target)
    except BaseException:
        if old is not None:
            old.rename(target)
        raise
    if old is not None:
        shutil.rmtree(old.parent, ignore_errors=True)
