"""Models that written code once got wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import unflatten
from tests.unit.source.checking import assert_canonical, write
from unflatten import source
from unflatten.errors import FolderError


def _inputs(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """A linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0) -> torch.Tensor:
        """The layer's value, masked where a mask is given."""
        y: torch.Tensor = self.fc(x) * scale
        return y if mask is None else y * mask


class Parallel(nn.Module):
    """Several things use one value: what the gradient of that is added up from."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.weight = Block(), Block(), nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum is in another order than the terms."""
        attended, sine = self.first(x), x.sin() * self.weight
        dense, cosine = self.second(x), x.cos() * self.weight
        return dense + attended * cosine + sine + x * self.weight


class Stack(nn.Module):
    """Blocks with several uses of their inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Parallel() for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block after the other."""
        for block in self.blocks:
            x = block(x)
        return x


def test_gradients_are_added_up_in_the_same_order(tmp_path: Path) -> None:
    write(tmp_path, Stack(), (_inputs(16, 8),))


class Positions(nn.Module):
    """An embedding of as many rows as something else has."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 4))

    def forward(self, ids: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        """Rows."""
        at = torch.arange(ids.shape[1], device=ids.device).expand(2, -1) if at is None else at
        return torch.nn.functional.embedding(at, self.weight)


class Coder(nn.Module):
    """Modules of one class that do different things; the one needs of its argument nothing but the device."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Positions(), Positions()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Both."""
        return self.left(ids) + self.right(ids, at=ids % 8)


def test_an_argument_that_only_tells_the_device_is_handed_on(tmp_path: Path) -> None:
    write(tmp_path, Coder(), (torch.arange(10).reshape(2, 5),))


class Shared(nn.Module):
    """One module in three places, called with other arguments each time."""

    def __init__(self) -> None:
        super().__init__()
        self.a = Block()
        self.list = nn.ModuleList([self.a, Block(), self.a])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Four calls."""
        x = self.a(self.a(x), scale=2.0)
        return self.list[2](self.list[1](x, mask=x), mask=x > 0)


def test_the_number_of_a_method_comes_before_what_may_be_left_out(tmp_path: Path) -> None:
    text = write(tmp_path, Shared(), (_inputs(2, 8),)).text
    assert "    def forward(self, x, form, mask=None):" in text
    assert "        a = self.a(self.a(x, form=0), form=1)" in text


class Constants(nn.Module):
    """Tensors that are made of numbers where they are needed."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.offset = nn.Linear(3, 3), torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A sum."""
        sum_: torch.Tensor = self.fc(x) + self.offset + torch.tensor([1.0, 2.0, 3.0])
        return sum_


def test_tensors_made_of_numbers_take_no_class_of_their_own(tmp_path: Path) -> None:
    written = write(tmp_path, Constants(), (_inputs(2, 3),))
    assert written.text.count("\nclass ") == 1
    assert "self.constant_0.clone()" in written.text
    assert written.model.to(torch.device("meta")).offset.device.type == "meta"


class Mapped(nn.Module):
    """A function over rows."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each row by itself."""
        rows: torch.Tensor = torch.vmap(lambda row: row.sin() @ row)(self.fc(x))
        return rows


def test_what_begins_and_ends_a_vmap_stays_around_it(tmp_path: Path) -> None:
    write(tmp_path, Mapped(), (_inputs(3, 8),))


class Converted(nn.Module):
    """A conversion that changes nothing, and uses of what it was given before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A product."""
        x = self.fc(x).clamp(0.0)
        y = x[..., None] * 2
        return (x.to(torch.float32).sin() * x).sum() + y.sum()


def test_conversions_that_change_nothing(tmp_path: Path) -> None:
    write(tmp_path, Converted(), (_inputs(2, 8),))


class Counted(nn.Module):
    """A size that a tensor holds."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        """The first rows."""
        number: Any = count.item()
        torch._check(number >= 1)
        torch._check(number <= 2)
        rows: torch.Tensor = self.fc(x).narrow(0, 0, number)
        return rows


def test_checks_name_no_nodes(tmp_path: Path) -> None:
    assert "on node" not in write(tmp_path, Counted(), (_inputs(2, 8), torch.tensor(2))).text


def _named(name: str, inner: nn.Module) -> nn.Module:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(self, name)(x) * 2
        return result + self.held

    made: nn.Module = type(name, (nn.Module,), {"forward": forward})()
    made.add_module(name, inner)
    made.held = torch.ones(8)
    return made


@pytest.mark.parametrize("names", [("check", "require", "move_constants", "load"), ("Path", "json", "walk", "FILE")])
def test_classes_and_children_that_go_by_the_package_s_own_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    model: nn.Module = nn.Linear(8, 8)
    for name in names:
        model = _named(name, model)
    write(tmp_path, model, (_inputs(2, 8),))


class Attention(nn.Module):
    """Attention, whose values are best called what the operator calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """What is attended to."""
        query, key, value = (each(hidden).view(2, 3, 2, 4).transpose(1, 2) for each in (self.q, self.k, self.v))
        return nn.functional.scaled_dot_product_attention(query, key, value)


class Attended(nn.Module):
    """Layers in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layers = nn.Linear(8, 8), nn.ModuleList([Attention() for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Layer by layer."""
        hidden = self.embed(x)
        for layer in self.layers:
            hidden = hidden + layer(hidden).transpose(1, 2).reshape(2, 3, 8)
        return hidden * 2


def test_variables_are_called_by_what_they_are_for(tmp_path: Path) -> None:
    text = write(tmp_path, Attended(), (_inputs(2, 3, 8),)).text
    assert "        query = self.q(hidden).view(2, 3, 2, 4).transpose(1, 2)\n" in text
    assert "        key = self.k(hidden).view(2, 3, 2, 4).transpose(1, 2)\n" in text
    assert "        hidden = self.embed(x)\n" in text


@pytest.mark.parametrize(("name", "package"), [("GPT-2 large", "GPT_2_large"), ("Net", "Net"), ("class", "class_")])
def test_folders_of_any_name(tmp_path: Path, name: str, package: str) -> None:
    program = unflatten.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    folder = source.write(program, tmp_path / name)
    assert_canonical(folder)
    readme = (folder / "README.md").read_text()
    assert f"from {package} import load" in readme
    assert (f"renamed to `{package}`" in readme) == (name != package)


def test_a_link_to_a_folder_stays_one(tmp_path: Path) -> None:
    program = unflatten.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert source.write(program, tmp_path / "link") == tmp_path / "link"
    assert (tmp_path / "link").is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "real"]
    assert (tmp_path / "real" / "model.py").is_file()


def test_a_place_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    program = unflatten.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="can't be written"):
        source.write(program, tmp_path / "file" / "net")


def test_what_stops_in_the_middle_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = unflatten.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    folder = source.write(program, tmp_path / "net")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unflatten.source.writing.save_state", stop)
    with pytest.raises(KeyboardInterrupt):
        source.write(unflatten.export(nn.Linear(3, 3), (torch.ones(1, 3),)), folder, overwrite=True)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert [each.name for each in tmp_path.iterdir()] == ["net"]
