"""What programs can hold besides operators: sizes, branches, modes, writes, nested values, several bodies."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.export import Dim

import unflatten
from tests.unit.source.checking import write
from unflatten import source

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float | None, flag: bool = False) -> torch.Tensor:
        x = self.fc(x)
        x = x if scale is None else x * scale
        return torch.relu(x) if flag else x


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Scaled()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x, 2.0) + self.block(x, 3.0) + self.block(x, None, flag=True)


def test_a_module_that_is_called_in_several_ways_has_a_method_for_each(tmp_path: Path) -> None:
    text = write(tmp_path, Several(), (X,)).text
    assert "        if scale == 2.0:\n            return self.forward_1(x)" in text


class Shaped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) if x.shape[0] == 2 else torch.tanh(x)


class ByShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Shaped()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.block(x), self.block(torch.cat([x, x]))


def test_bodies_are_told_apart_by_shapes(tmp_path: Path) -> None:
    assert "if x.shape[0] == 2:" in write(tmp_path, ByShape(), (X,)).text


class Secretly(nn.Module):
    """Does another thing each time, and its arguments don't tell."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return torch.relu(x) if self.count % 2 else torch.tanh(x)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Secretly()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.block(x), self.block(x + 1)


def test_bodies_that_nothing_tells_apart_are_told_by_the_caller(tmp_path: Path) -> None:
    text = write(tmp_path, Twice(), (X,)).text
    assert "self.block(x, form=0), self.block(x + 1, form=1)" in text


class Sizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.fc(x).reshape(-1, 2, x.shape[1]) + y.sum() + x.shape[0]


def test_sizes_that_vary_and_limits_of_them(tmp_path: Path) -> None:
    batch = Dim("batch", min=3, max=8)
    shapes = {"x": {0: 2 * batch}, "y": {0: batch}}
    x, y = torch.randn(8, 4), torch.randn(4)
    model = write(tmp_path, Sizes(), (x, y), dynamic_shapes=shapes).model
    assert model(torch.ones(10, 4), torch.ones(5)).shape == (5, 2, 4)
    for bad in (torch.ones(20), torch.ones(2), torch.ones(4, 4)):
        with pytest.raises(ValueError, match=r"y|captured"):
            model(torch.ones(2 * len(bad), 4), bad)
    with pytest.raises(ValueError, match=r"captured|shape"):
        model(torch.ones(9, 4), torch.ones(4))


def test_inputs_that_the_program_refuses_are_refused(tmp_path: Path) -> None:
    model = write(tmp_path, nn.Sequential(nn.Linear(4, 4)), (X,)).model
    with pytest.raises(ValueError, match=r"input.shape\[0\] is 3, not 2"):
        model(torch.ones(3, 4))
    with pytest.raises(TypeError, match="has to be a tensor"):
        model([1])


class Flagged(nn.Module):
    def forward(self, x: torch.Tensor, *, mode: str = "a", bias: torch.Tensor | None = None) -> torch.Tensor:
        return x + 1 if mode == "a" else x * 2


def test_constants_among_arguments(tmp_path: Path) -> None:
    model = write(tmp_path, Flagged(), (X,), {"mode": "b", "bias": None}).model
    with pytest.raises(ValueError, match="captured for mode"):
        model(X, mode="a", bias=None)


class Modes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = self.fc(x) * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = self.fc(x)
        return y + z + self.fc(x)


def test_modes_are_blocks(tmp_path: Path) -> None:
    text = write(tmp_path, Modes(), (X,)).text
    assert "with torch.no_grad():" in text
    assert 'with torch.autocast("cpu", dtype=torch.bfloat16' in text


class Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(2, 4))

    count: torch.Tensor
    cache: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.cache[0] = x[1]
        x.mul_(2)
        return x + self.count + self.cache


def test_buffers_and_inputs_are_written(tmp_path: Path) -> None:
    write(tmp_path, Writes(), (X,))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x)
        return torch.cond(x.sum() > 0, lambda a: a * 2 + 1, lambda a: a - 1, (y,))


def test_branches(tmp_path: Path) -> None:
    text = write(tmp_path, Branches(), (X,)).text
    assert "def true_graph(" in text


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


@dataclasses.dataclass
class Result:
    value: torch.Tensor
    more: Any = None


torch.export.register_dataclass(Result)


class Nested(nn.Module):
    def forward(self, batch: dict[str, Any], pair: Pair) -> dict[str, Any]:
        x = batch["x"][0] + pair.a
        return {"pair": Pair(x, pair.b), "ordered": OrderedDict(z=x, a=x + 1), "list": [x, (x,)], "one": Result(x)}


def test_nested_values_go_in_and_come_out(tmp_path: Path) -> None:
    written = write(tmp_path, Nested(), ({"x": [X, X]}, Pair(X, X)))
    assert isinstance(written.model({"x": [X, X]}, Pair(X, X))["one"], Result)


@torch.library.custom_op("source_test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return double(x) + 1


def test_custom_operators_are_named_at_the_top(tmp_path: Path) -> None:
    text = write(tmp_path, Custom(), (X,)).text
    assert "source_test::double" in text.split("import torch")[0]


@pytest.mark.parametrize("training", [False, True])
def test_the_mode_is_kept(tmp_path: Path, training: bool) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5), nn.Flatten()).train(training)
    loaded = write(tmp_path, model, (torch.randn(2, 1, 5, 5),)).model
    assert loaded.training is training
    assert not loaded.eval().training


class Functional(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.5, self.training)


def test_a_mode_that_operators_were_captured_in_stays(tmp_path: Path) -> None:
    loaded = write(tmp_path, Functional().eval(), (X,)).model
    with pytest.raises(RuntimeError, match="captured in eval mode"):
        loaded.train()


class Block(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.norm, self.eps, self.fc = nn.LayerNorm(width), eps, nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(self.norm(x)) * self.eps


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(4, 0.5) for _ in range(6))
        self.last = Block(4, 0.25)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def test_equal_blocks_are_one_class_with_what_differs_as_an_argument(tmp_path: Path) -> None:
    text = write(tmp_path, Stack(), (X,)).text
    assert text.count("\nclass ") == 2
    assert "[Block(scale=0.5) for _ in range(6)]" in text
    assert "self.last = Block(scale=0.25)" in text


class Tree(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.inner = Tree(depth - 1) if depth else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x)) + self.inner(x)


def test_a_class_that_holds_itself(tmp_path: Path) -> None:
    write(tmp_path, nn.Sequential(Tree(3)), (X,))


class Borrowing(nn.Module):
    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.other = (other,)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other[0](x) + 1


class Lending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.borrowing = Borrowing(self.fc)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.borrowing(x) + self.fc(x)


def test_a_module_that_another_part_of_the_model_calls(tmp_path: Path) -> None:
    write(tmp_path, Lending(), (X,))


def test_a_loaded_model_pickles_where_its_package_is_imported(tmp_path: Path) -> None:
    model = write(tmp_path, Stack(), (X,)).model
    assert torch.equal(pickle.loads(pickle.dumps(model))(X), model(X))


class Casting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.inner(x.unsqueeze(0)) + y


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float64) * 2


def test_types_that_the_program_checks_are_checked(tmp_path: Path) -> None:
    model = write(tmp_path, Casting(), (X, X + 1)).model
    model(X, X.double())
    with pytest.raises(TypeError, match=r"x is of type torch.float64, not torch.float32"):
        model(X.double(), X)


def test_a_written_package_needs_only_torch_and_safetensors(tmp_path: Path) -> None:
    written = write(tmp_path, Stack(), (X,))
    code = (
        "import sys; sys.modules['unflatten'] = None\nimport torch\nfrom net import load\n"
        "print(load()(torch.linspace(-1, 1, 8).reshape(2, 4)).sum().item())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stderr, float(done.stdout)) == ("", written.model(X).sum().item())


def test_a_part_of_a_tree_is_written_too(tmp_path: Path) -> None:
    nested = unflatten.unflatten(unflatten.export(Stack(), (X,)))
    block = nested.get_submodule("blocks.0")
    loaded = source.load(source.write(block, tmp_path / "block"))
    assert torch.equal(loaded(X), block(X))
