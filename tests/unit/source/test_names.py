"""Names and strings are data: whatever they are, they end up as what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from tests.unit.source.checking import write
from unflatten import source
from unflatten.source.formatting import layout
from unflatten.source.text import quoted

X = torch.linspace(-1, 1, 8).reshape(2, 4)
HOSTILE = [
    'a"); import os; x("',
    "a'''b",
    '"""',
    "new\nline",
    "back\\slash",
    "for",
    "None",
    "self",
    "forward",
    "training",
    "__init__",
    "__class__",
    "__private",
    "1x1",
    "a b",
    "ﬁ",
    "µ",
    "print",
    "nn",
    "torch",
    "{x}",
    "#",
]
UNEXPORTABLE = {"forward", "training", "__init__", "__class__"}
"""Names of children that torch's own export does not take."""


class Holder(nn.Module):
    """Calls children whatever they are called."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        for at, name in enumerate(names):
            self._modules[name] = nn.Linear(4, 4, bias=at % 2 == 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for child in self.children():
            x = torch.tanh(child(x))
        return x


def test_children_of_any_name(tmp_path: Path) -> None:
    names = [name for name in HOSTILE if name not in UNEXPORTABLE]
    written = write(tmp_path, Holder(names), (X,))
    assert list(written.model._modules) == names
    compile(written.text, "model.py", "exec")


def test_two_names_that_would_be_written_alike_stay_two(tmp_path: Path) -> None:
    written = write(tmp_path, Holder(["a b", "a_b", "a-b"]), (X,))
    assert list(written.model._modules) == ["a b", "a_b", "a-b"]


class Tensors(nn.Module):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        for at, name in enumerate(names):
            if at % 2:
                self._buffers[name] = torch.full((4,), at + 0.5)
            else:
                self._parameters[name] = nn.Parameter(torch.full((4,), at + 0.25))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for tensor in (*self.parameters(), *self.buffers()):
            x = x * tensor
        return x


def test_tensors_of_any_name(tmp_path: Path) -> None:
    names = [name for name in HOSTILE if "." not in name]
    written = write(tmp_path, Tensors(names), (X,))
    assert {*written.model._parameters, *written.model._buffers} == set(names)


class Text(nn.Module):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {self.text: x + 1}


@pytest.mark.parametrize("text", ['"); raise SystemExit("', "\\", "\u2028\x00'\"", "{x!r}", '"""'])
def test_strings_are_constants(tmp_path: Path, text: str) -> None:
    assert list(write(tmp_path, Text(text), (X,)).model(X)) == [text]


def test_class_names_that_mean_something_else(tmp_path: Path) -> None:
    made = type("print", (Text,), {"__qualname__": 'print"\nimport os'})
    outer = nn.Sequential(made("a"))
    assert "import os" not in write(tmp_path, outer, (X,)).text.replace("import_os", "")


@pytest.mark.parametrize("value", ["", "'", '"', "\\", "\n", "\x00", "é", "\U0001f600", "a\\\"'"])
def test_quoted_strings_are_read_back(value: str) -> None:
    assert eval(quoted(value)) == value  # noqa: S307
    assert quoted(value).isascii()


def test_lines_that_are_too_long_are_broken_at_their_last_brackets() -> None:
    line = f"x = self.layer({', '.join(f'argument_{at}' for at in range(12))})"
    assert layout(line, 8)[0] == "        x = self.layer("
    assert layout(line, 8)[1] == "            argument_0,"
    assert layout(line, 8)[-1] == "        )"


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Namesakes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.Pair, self.Pair_1, self.check, self.true_graph = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> Pair:
        first, second = self.Pair(x), self.true_graph(x)
        second = self.Pair(self.Pair_1(first) + second)
        third = self.true_graph(self.check(second) + first)
        third = torch.cond(third.sum() > 0, torch.sin, torch.cos, (third,))
        return Pair(first * second, second + third)


class Hiding(nn.Module):
    def forward(self, Pair: torch.Tensor, true_graph: torch.Tensor) -> Any:
        third = torch.cond(true_graph.sum() > 0, torch.sin, torch.cos, (true_graph,))
        return globals()["Pair"](Pair * third, true_graph)


@pytest.mark.parametrize("model", [Namesakes(), Hiding()], ids=["variables", "parameters"])
def test_variables_do_not_hide_what_the_file_names(model: nn.Module, tmp_path: Path) -> None:
    write(tmp_path, model, (X,) if isinstance(model, Namesakes) else (X, X + 1))


class Builtins(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.builtins = nn.Linear(4, 4)

    def forward(self, builtins: torch.Tensor) -> torch.Tensor:
        inner = self.builtins(builtins)
        return self.builtins(inner) * inner - torch.abs(inner) * torch.abs(builtins)


def test_variables_do_not_hide_modules_of_python(tmp_path: Path) -> None:
    program = torch.export.export(Builtins(), (X,))
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.abs.default:
            node.target = abs  # as a pass may write it
    program.graph_module.recompile()
    loaded = source.load(source.write(program, tmp_path / "net"))
    assert 'globals()["builtins"].abs(builtins_' in (tmp_path / "net" / "model.py").read_text()
    assert torch.equal(loaded(X), program.module()(X))
