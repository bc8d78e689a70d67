"""A random model as a value: it builds itself, and prints as the code that makes it."""

from __future__ import annotations

import functools
import linecache
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from unflatten.recording.export import export

SOURCE = "__module_dag__"
"""The attribute of a generated class that holds the source of the whole model."""


class ModuleDag:
    """A small model with what it is called with, made from its source.

    Every part is made anew each time, and always the same. What `repr` gives makes the very same model, so that a
    failing example can be copied into a test.

    Attributes:
        source: Python that defines `build`, which makes the model, `args`, `kwargs` and `dynamic_shapes`.

    Example:
        >>> dag = ModuleDag('''
        ...     import torch
        ...     from torch import nn
        ...     class Root(nn.Module):
        ...         def forward(self, x):
        ...             return x + 1
        ...     build = Root
        ...     args = (torch.ones(2),)
        ...     kwargs = {}
        ...     dynamic_shapes = None
        ... ''')
        >>> dag.model()(*dag.args)
        tensor([2., 2.])
    """

    def __init__(self, source: str) -> None:
        self.source = textwrap.dedent(source).strip() + "\n"

    def _made(self, name: str) -> Any:
        return _run(self.source)[name]

    def model(self) -> nn.Module:
        """The model, made anew."""
        build: Callable[[], nn.Module] = self._made("build")
        with torch.random.fork_rng(devices=()):
            return build()

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments to call the model with, made anew."""
        return _copied(self._made("args"))  # type: ignore[no-any-return]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments to call the model with, made anew."""
        return _copied(self._made("kwargs"))  # type: ignore[no-any-return]

    @property
    def dynamic_shapes(self) -> Any:
        """Which sizes may vary, as `torch.export.export` takes it."""
        return self._made("dynamic_shapes")

    def export(self, *, record: bool = False, model: nn.Module | None = None, **options: Any) -> ExportedProgram:
        """The model's program.

        Args:
            record: record calls, with `unflatten.export`.
            model: export this one, which takes the same arguments.
            options: whatever else `torch.export.export` takes.
        """
        exporter: Any = export if record else torch.export.export
        model = self.model() if model is None else model
        program: ExportedProgram
        program = exporter(model, self.args, self.kwargs, dynamic_shapes=self.dynamic_shapes, **options)
        return program

    def __repr__(self) -> str:
        return f"ModuleDag('''\n{self.source}''')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleDag) and other.source == self.source

    def __hash__(self) -> int:
        return hash(self.source)


@functools.lru_cache(maxsize=256)
def _run(source: str) -> Mapping[str, Any]:
    """The names that a source defines; the source is kept for tracebacks."""
    file = f"<module dag {abs(hash(source)):x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "module_dag"}
    exec(compile(source, file, "exec"), names)
    for value in names.values():
        if isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == "module_dag":
            setattr(value, SOURCE, source)
    return names


def _copied(value: Any) -> Any:
    """The value with copies of its tensors."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return type(value)(map(_copied, value)) if isinstance(value, tuple | list) else value
