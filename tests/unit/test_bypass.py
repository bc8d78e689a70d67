"""Modules left out, and put back."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.support.comparing import assert_same_run, capture
from unflatten import UnflattenedModule, bypass, info, restore, swap, unflatten
from unflatten.errors import AmbiguousBypassError, BypassError, ModeError, RewriteError, UnknownPathError

X = torch.randn(2, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc, self.drop = nn.LayerNorm(4), nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.drop(self.fc(self.norm(x)).relu())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Layer(nn.Module):
    """Takes and gives as a decoder layer does."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(
        self, hidden_states: torch.Tensor, mask: torch.Tensor, positions: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, None, torch.Tensor, int]:
        cos, sin = positions
        return self.fc(hidden_states) * mask + cos * sin, None, mask * 2, 3


class Decoder(nn.Module):
    def __init__(self, positions: tuple[int, ...] = (1, 4)) -> None:
        super().__init__()
        self.layers, self.positions = nn.ModuleList([Layer(), Layer()]), positions

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cos, sin = torch.ones(self.positions), torch.ones(self.positions) * 2
        mask = torch.ones(2, 1)
        for layer in self.layers:
            x, _, mask, _ = layer(hidden_states=x, mask=mask, positions=(cos, sin))
        return x + mask


def network() -> UnflattenedModule:
    return unflatten(capture(Net().eval(), (X,)))


def test_a_residual_block_and_its_parts() -> None:
    model = Net().eval()
    nested = unflatten(capture(model, (X,)))
    bypass(nested, "blocks.0")
    assert torch.equal(nested(X), model.head(model.blocks[1](X)))
    for name, part in model.blocks[1].named_children():
        bypass(nested, f"blocks.1.{name}")
        model.blocks[1].register_module(name, nn.Identity())
        assert torch.equal(nested(X), model.head(model.blocks[1](X))), part
    assert info(nested.blocks[0]).code == "def forward(self, x):\n    return x"
    assert repr(nested.blocks[0]) == "Bypassed(in place of Block)"


def test_the_state_leaves_and_comes_back_where_it_was() -> None:
    nested = network()
    expected, keys, block = nested(X), list(nested.state_dict()), nested.blocks[0]
    undone = bypass(nested, "blocks.0")
    assert list(nested.state_dict()) == [key for key in keys if not key.startswith("blocks.0")]
    assert len(list(nested.parameters())) == 6
    assert undone.undo() is block
    assert nested.blocks[0] is block
    assert list(nested.state_dict()) == keys
    assert torch.equal(nested(X), expected)
    bypass(nested, "blocks.0")
    assert restore(nested, "blocks.0") is block
    assert torch.equal(nested(X), expected)


def test_a_layer_hands_on_what_has_the_structure_of_its_results() -> None:
    nested = unflatten(capture(Decoder(), (X,), preserve_module_call_signature=("layers.0", "layers.1")))
    bypass(nested, "layers.0")
    assert "return hidden_states, None, mask, 3" in info(nested.layers[0]).code
    model = Decoder()
    model.load_state_dict({f"layers.{at}.{key}": value for at in (0, 1) for key, value in _state(nested).items()})
    mask = torch.ones(2, 1)
    expected = model.layers[1](X, mask, (torch.ones(1, 4), torch.ones(1, 4) * 2))
    assert torch.equal(nested(X), expected[0] + expected[2])


def _state(nested: nn.Module) -> dict[str, Any]:
    return dict(nested.get_submodule("layers.1").state_dict())


def test_a_layer_without_a_recorded_signature_does_too() -> None:
    recorded = unflatten(capture(Decoder(), (X,), preserve_module_call_signature=("layers.0", "layers.1")))
    nested = unflatten(capture(Decoder(), (X,)))
    nested.load_state_dict(recorded.state_dict())
    for module in (recorded, nested):
        bypass(module, "layers.0")
    assert torch.equal(nested(X), recorded(X))


def test_several_inputs_that_fit_are_named_and_one_can_be_chosen() -> None:
    program = capture(Decoder((2, 4)), (X,), preserve_module_call_signature=("layers.0", "layers.1"))
    nested = unflatten(program)
    with pytest.raises(AmbiguousBypassError) as caught:
        bypass(nested, "layers.0")
    assert str(caught.value) == (
        "can't bypass 'layers.0' (Layer):\n"
        "  result 0 is float32[2, 4]; several inputs have that structure:\n"
        "    hidden_states: float32[2, 4]\n"
        "    positions[0]: float32[2, 4]\n"
        "    positions[1]: float32[2, 4]\n"
        "Choose one by name or position, as in using='hidden_states'."
    )
    for using, text in (
        ("hidden_states", "hidden_states"),
        (0, "hidden_states"),
        ("positions[1]", "positions[1]"),
    ):
        undone = bypass(nested, "layers.0", using=using)
        assert f"return {text}, None, mask, 3" in info(nested.layers[0]).code
        nested(X)
        undone.undo()
    with pytest.raises(AmbiguousBypassError, match=r"as in using='positions\[0\]'"):
        bypass(nested, "layers.0", using="positions")
    for wrong in ("masks", "fc", 7):
        with pytest.raises(BypassError, match="is no input of the struct"):
            bypass(nested, "layers.0", using=wrong)


def test_a_result_without_an_input_of_its_structure_is_refused() -> None:
    nested = network()
    keys = list(nested.state_dict())
    with pytest.raises(BypassError) as caught:
        bypass(nested, "head")
    assert str(caught.value) == (
        "can't bypass 'head' (Linear):\n"
        "  the result is float32[2, 3]; no input has that structure. The inputs are:\n"
        "    input: float32[2, 4]"
    )
    assert list(nested.state_dict()) == keys


def test_a_dtype_that_changes_is_another_structure() -> None:
    class Cast(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.double()

    with pytest.raises(BypassError, match="no input has that structure"):
        bypass(unflatten(capture(nn.Sequential(Cast()), (X,))), "0")


def test_sizes_are_compared_as_expressions() -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x]) + torch.cat([y, y[:0]])

    class Doubles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.halves = Halves()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.halves(x, torch.cat([x * 2, x * 3]))

    program = torch.export.export(Doubles(), (X,), dynamic_shapes={"x": {0: Dim("n", min=2, max=64)}})
    nested = unflatten(program)
    bypass(nested, "halves")
    for size in (3, 7):
        x = torch.randn(size, 4)
        assert torch.equal(nested(x), torch.cat([x * 2, x * 3]))


class Shared(nn.Module):
    """One batch norm under two names, called three times; one module called in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.scale = nn.BatchNorm1d(4), Scale()
        self.b = self.a

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.b(self.a(self.b(x)).relu())
        return self.scale(self.scale(x, 2.0), 3.0)


class Scale(nn.Module):
    def forward(self, x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by


def test_every_name_and_every_way_of_calling() -> None:
    nested = unflatten(capture(Shared().eval(), (X,)))
    names = [name for name, _ in nested.named_modules(remove_duplicate=False)]
    norm = bypass(nested, "b")
    assert nested.a is nested.b
    assert torch.equal(nested(X), X.relu() * 2 * 3)
    scale = bypass(nested, "scale")
    assert torch.equal(nested(X), X.relu())
    with pytest.raises(BypassError, match="'a' is bypassed already"):
        bypass(nested, "a")
    norm.undo()
    scale.undo()
    assert [name for name, _ in nested.named_modules(remove_duplicate=False)] == names
    assert nested.a is nested.b


def test_ways_of_calling_that_would_hand_on_different_inputs_are_refused() -> None:
    class Pick(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sum(0) * y if y.shape[0] == 2 else x * y.sum(0)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pick = Pick()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.pick(x[:1], x) + self.pick(x, torch.cat([x, x[:1]]))

    nested = unflatten(capture(Both(), (X,), preserve_module_call_signature=("pick",)))
    with pytest.raises(BypassError, match="would hand on different inputs"):
        bypass(nested, "pick")


def test_a_parent_and_its_child_in_any_order() -> None:
    paths = ("blocks.0", "blocks.0.fc")
    model = Net().eval()
    program = capture(model, (X,))
    keys = list(model.state_dict())
    for first, second in (paths, paths[::-1]):
        for undo_first in (first, second):
            nested = unflatten(program)
            undos = {first: bypass(nested, first), second: bypass(nested, second)}
            assert torch.equal(nested(X), model.head(model.blocks[1](X)))
            undos.pop(undo_first).undo()
            twin = copy.deepcopy(model)
            if undo_first == "blocks.0":
                twin.blocks[0].register_module("fc", nn.Identity())
            else:
                twin.blocks[0] = nn.Identity()
            assert torch.equal(nested(X), twin(X))
            undos.popitem()[1].undo()
            assert torch.equal(nested(X), model(X))
            assert list(nested.state_dict()) == keys


def test_undoing_twice_or_after_a_swap_is_refused() -> None:
    nested = network()
    undone = bypass(nested, "blocks.0")
    undone.undo()
    with pytest.raises(BypassError, match="no longer bypassed"):
        undone.undo()
    with pytest.raises(BypassError, match=r"'blocks\.0' \(Block\) is not bypassed"):
        restore(nested, "blocks.0")
    undone = bypass(nested, "blocks.0")
    stand_in = swap(nested, "blocks.0", nn.Identity())
    with pytest.raises(BypassError, match="no longer bypassed"):
        undone.undo()
    swap(nested, "blocks.0", stand_in)
    assert undone.undo() is nested.blocks[0]


def test_what_is_not_there_not_called_or_the_root_is_refused() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.ReLU(), nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    nested = unflatten(capture(Idle(), (X,)))
    with pytest.raises(BypassError, match="the program never calls it"):
        bypass(nested, "idle")
    with pytest.raises(UnknownPathError, match="Did you mean 'used'"):
        bypass(nested, "use")
    with pytest.raises(RewriteError, match="the root"):
        bypass(nested, "")
    nested = unflatten(capture(Idle(), (X,)), native_leaves=False)
    swap(nested, "used", nn.Tanh())
    with pytest.raises(BypassError, match="nothing is known of how it is called"):
        bypass(nested, "used")


def test_what_was_bypassed_is_copied_pickled_and_moved_along() -> None:
    nested = network()
    expected = nested(X)
    bypass(nested, "blocks.0")
    bypass(nested, "blocks.1.drop")
    for twin in (copy.deepcopy(nested), pickle.loads(pickle.dumps(nested))):
        assert_same_run(nested, twin, (X,))
        restore(twin, "blocks.1.drop")
        restore(twin, "blocks.0")
        assert torch.equal(twin(X), expected)
    nested.double()
    assert restore(nested, "blocks.0").state_dict()["fc.weight"].dtype is torch.float64


def test_it_compiles_whole_and_exports_again() -> None:
    nested = unflatten(capture(Decoder(), (X,), preserve_module_call_signature=("layers.0", "layers.1")))
    bypass(nested, "layers.0")
    expected = nested(X)
    again = unflatten(torch.export.export(nested, (X,)))
    assert torch.equal(again(X), expected)
    torch._dynamo.reset()
    compiled = torch.compile(nested, fullgraph=True, backend="eager")
    assert torch.equal(compiled(X), expected)


def test_the_mode_of_what_is_left_out_does_not_hold_the_tree_back() -> None:
    nested = unflatten(capture(Net().eval(), (X,)), native_leaves=False)
    with pytest.raises(ModeError):
        nested.train()
    drops = [bypass(nested, f"blocks.{at}.drop") for at in (0, 1)]
    nested.train()
    with pytest.raises(ModeError):
        drops[0].undo()
    nested.eval()
    for drop in drops:
        drop.undo()
    assert not nested.blocks[0].drop.training


def test_one_value_that_is_given_twice_is_one_input() -> None:
    class Attends(nn.Module):
        def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            return (query @ key.t()) @ key

    class Self(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attends = Attends()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attends(query=x, key=x)

    for names in ((), ("attends",)):
        nested = unflatten(capture(Self(), (X,), preserve_module_call_signature=names))
        bypass(nested, "attends")
        assert nested(X) is X


def test_a_module_whose_code_is_its_own_is_left_out_if_its_calls_are_known() -> None:
    program = capture(Net().eval(), (X,))
    nested, generated = unflatten(program), unflatten(program, native_leaves=False)
    genuine = nested.blocks[0].fc
    assert type(genuine) is nn.Linear
    undone = bypass(nested, "blocks.0.fc")
    bypass(generated, "blocks.0.fc")
    assert torch.equal(nested(X), generated(X))
    assert undone.undo() is genuine
    bypass(nested.blocks[0], "fc")  # a part of the tree knows as well
    assert torch.equal(nested(X), generated(X))
