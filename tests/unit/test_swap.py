"""Modules and nodes replaced by others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.comparing import capture
from unflatten import UnflattenedModule, bypass, export, info, swap, swap_node, unflatten
from unflatten.errors import NotAModuleError, RewriteError, UnknownPathError, UnknownSignatureError
from unflatten.paths import ModulePath
from unflatten.testing import assert_order_invariant

X = torch.randn(2, 4)


class Counts(nn.Module):
    """An identity that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x


class Inner(nn.Module):
    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.act, self.fc = act, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.fc(x))


class Shared(nn.Module):
    """One batch norm under three names, called four times."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.BatchNorm1d(4)
        self.a, self.b, self.c = Inner(norm), Inner(norm), norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(self.b(self.a(x))) + self.a(x)


class Minus(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return b - a


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.minus, self.act = Minus(), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.minus(x, x.sin()))


def shared() -> UnflattenedModule:
    return unflatten(capture(Shared().eval(), (X,)))


def children(module: nn.Module) -> dict[str, int]:
    return {name: id(inner) for name, inner in module.named_modules(remove_duplicate=False)}


@pytest.mark.parametrize("path", ["c", "a.act", "b.act"])
def test_every_call_of_a_shared_module_reaches_its_replacement_by_whatever_name(path: str) -> None:
    nested, counts = shared(), Counts()
    names = list(children(nested))
    before = nested.c
    assert swap(nested, path, counts) is before
    nested(X)
    assert counts.count == 4
    assert nested.a.act is nested.b.act is nested.c is counts
    assert [name for name, _ in nested.named_modules(remove_duplicate=False)] == names


def test_assigning_reaches_all_calls_by_the_first_name_and_none_by_another() -> None:
    for path, expected in (("a.act", 4), ("b.act", 0), ("c", 0)):
        nested, counts = shared(), Counts()
        parent, _, name = path.rpartition(".")
        setattr(nested.get_submodule(parent), name, counts)
        nested(X)
        assert counts.count == expected, path


def test_a_module_that_is_called_several_times_is_replaced_at_each_call_by_assigning_too() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.ReLU(), nn.Linear(4, 4)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[0](self.layers[1](self.layers[0](x)))

    for assign in (False, True):
        nested, counts = unflatten(capture(Net(), (X,))), Counts()
        if assign:
            nested.layers[0] = counts
        else:
            swap(nested, ModulePath(("layers", "0")), counts)
        assert torch.equal(nested(X), nested.layers[1](X))
        assert counts.count == 2


def test_swapping_back_gives_the_results_and_the_order_of_the_state_back() -> None:
    nested = shared()
    expected, keys = nested(X), list(nested.state_dict())
    before = swap(nested, "a.fc", nn.Identity())
    assert "a.fc.weight" not in nested.state_dict()
    swap(nested, "a.fc", before)
    assert torch.equal(nested(X), expected)
    assert list(nested.state_dict()) == keys


def test_a_replacement_may_contain_what_it_replaces_and_keeps_its_mode() -> None:
    nested = shared()
    wrapper = nn.Sequential(nested.a.fc, nn.Dropout())
    swap(nested, "a.fc", wrapper)
    assert wrapper.training
    wrapper.eval()
    assert torch.equal(nested.a(X), nested.a.act(wrapper[0](X)))


def test_where_no_order_was_recorded_swap_refuses_at_once() -> None:
    nested = unflatten(capture(Pairs(), (X,)))
    before, expected = children(nested), nested(X)
    with pytest.raises(UnknownSignatureError, match="accepts_guessed_arguments = True"):
        swap(nested, "minus", Minus())
    assert children(nested) == before
    assert torch.equal(nested(X), expected)
    willing = Minus()
    willing.__dict__["accepts_guessed_arguments"] = True
    swap(nested, "minus", willing)
    assert "(torch.sin(x), x)" in info(nested).code
    assert torch.equal(nested(X), (X - X.sin()).relu())


def test_where_calls_were_recorded_a_replacement_gets_the_arguments_of_the_original() -> None:
    nested = unflatten(torch.export.export(Pairs(), (X,), preserve_module_call_signature=("minus",)))
    swap(nested, "minus", Minus())
    assert torch.equal(nested(X), (X.sin() - X).relu())


def test_modules_of_another_tree_are_accepted_unless_they_lack_a_way_of_being_called() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.minus = Minus()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.minus(x, x.sin()) + self.minus(x, x)

    nested, other = unflatten(capture(Twice(), (X,))), unflatten(capture(Twice(), (X,)))
    expected = nested(X)
    swap(nested, "minus", other.minus)
    assert torch.equal(nested(X), expected)


def test_what_code_uses_of_a_module_by_its_name_the_replacement_must_have() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.embed(x) @ self.embed.weight.t()

    ids = torch.tensor([[1, 2]])
    nested = unflatten(capture(Net(), (ids,)))
    with pytest.raises(RewriteError, match=r"code of Net uses self\.embed\.weight, and it has no 'weight'"):
        swap(nested, "embed", nn.Identity())
    with pytest.raises(RewriteError, match="leave the tree with it"):
        bypass(nested, "embed")
    other = nn.Embedding(5, 4)
    swap(nested, "embed", other)
    assert torch.equal(nested(ids), other(ids) @ other.weight.t())


def test_a_wrong_path_or_replacement_is_refused_and_leaves_the_tree_alone() -> None:
    nested = shared()
    before = children(nested)
    with pytest.raises(UnknownPathError, match=r"no module 'a\.fx' in Shared\. Did you mean 'a\.fc'"):
        swap(nested, "a.fx", nn.ReLU())
    with pytest.raises(RewriteError, match="the root can't be replaced"):
        swap(nested, "", nn.ReLU())
    with pytest.raises(NotAModuleError, match="a function can't stand for a module"):
        swap(nested, "a", lambda x: x)  # type: ignore[arg-type]
    for inside in (nested, nested.a):
        with pytest.raises(RewriteError, match="would contain itself"):
            swap(nested, "a.fc", nn.Sequential(inside))
    assert children(nested) == before


def test_a_node_gets_another_function_and_its_own_back() -> None:
    module = capture(nn.Sequential(nn.ReLU(), nn.Tanh()), (X,)).graph_module
    first = swap_node(module, "relu", torch.ops.aten.neg.default)
    assert torch.equal(module(X)[0], torch.tanh(-X))
    node = next(node for node in module.graph.nodes if node.op == "placeholder")
    second = swap_node(module, "tanh", torch.mul, (node, 2))
    assert torch.equal(module(X)[0], X * 2)
    first.undo()
    second.undo()
    assert torch.equal(module(X)[0], torch.tanh(X.relu()))


def test_a_node_that_computes_nothing_or_arguments_that_come_later_are_refused() -> None:
    module = capture(nn.Sequential(nn.ReLU(), nn.Tanh()), (X,)).graph_module
    code = module.code
    nodes = {node.name: node for node in module.graph.nodes}
    with pytest.raises(RewriteError, match="tanh can't be given to node 'relu'"):
        swap_node(module, "relu", torch.neg, (nodes["tanh"],))
    with pytest.raises(RewriteError, match="of kind 'output' computes nothing"):
        swap_node(module, nodes["output"], torch.neg)
    with pytest.raises(RewriteError, match="a int can't be called"):
        swap_node(module, "relu", 3)  # type: ignore[arg-type]
    with pytest.raises(UnknownPathError, match=r"no node 'rely' in this graph\. Did you mean 'relu'"):
        swap_node(module, "rely", torch.neg)
    first = swap_node(module, "relu", torch.neg)
    second = swap_node(module, "relu", torch.abs)
    with pytest.raises(RewriteError, match="undo that first"):
        first.undo()
    second.undo()
    first.undo()
    module.recompile()
    assert module.code == code


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(0.5) + 1


class Ignores(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y * 2


class Sees(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.clone())
        return y * 2


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_replacement_sees_what_was_written_to_an_argument_that_the_original_ignored(before: int) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.ignores = Halves(), Halves(), Ignores()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
            halves, made = [self.first, self.second], []
            made += [each(x) for each in halves[:before]]
            made.append(self.ignores(x, y))
            return [*made, *(each(x) for each in halves[before:])][::-1]

    args = torch.ones(3), torch.ones(3)
    program = export(Net(), tuple(arg.clone() for arg in args))
    assert_order_invariant(program, args)
    nested = unflatten(program)
    sees = Sees()
    swap(nested, "ignores", sees)
    nested(*(arg.clone() for arg in args))
    assert torch.equal(sees.seen[0], torch.full((3,), 0.5**before))
