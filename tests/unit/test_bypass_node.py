"""Nodes of graphs left out, and put back."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable

import pytest
import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from unflatten import NodeBypass, bypass_node, swap_node
from unflatten.errors import AmbiguousBypassError, BypassError, UnknownPathError

X = torch.linspace(-1, 1, 6).view(2, 3)
aten = torch.ops.aten


def captured(function: Callable[..., torch.Tensor], *args: torch.Tensor) -> fx.GraphModule:
    class Net(nn.Module):
        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return function(*args)

    return torch.export.export(Net(), args).graph_module


def traced(module: nn.Module | Callable[..., torch.Tensor]) -> fx.GraphModule:
    graph = fx.symbolic_trace(module)
    FakeTensorProp(graph, FakeTensorMode(allow_non_fake_inputs=True)).propagate(X)
    return graph


def test_users_take_the_input_and_get_the_node_back() -> None:
    module = captured(lambda x: x.sin().relu().exp(), X)
    code = module.code
    without = bypass_node(module, "relu")
    assert torch.equal(module(X)[0], X.sin().exp())
    with pytest.raises(BypassError, match="'relu' is bypassed already"):
        bypass_node(module, "relu")
    assert without.undo().name == "relu"
    assert module.code == code
    with pytest.raises(BypassError, match="'relu' can't be put back"):
        without.undo()


def test_nodes_are_left_out_and_put_back_in_any_order() -> None:
    module = captured(lambda x: (x.sin().relu().exp() + 1).tanh(), X)
    functions = {"sin": torch.sin, "relu": torch.relu, "exp": torch.exp, "add": lambda x: x + 1, "tanh": torch.tanh}

    def expected(without: set[str]) -> torch.Tensor:
        x = X
        for name, function in functions.items():
            x = x if name in without else function(x)
        return x

    code, names = module.code, ("sin", "relu", "exp", "add")
    for order in itertools.permutations(names, 3):
        for back in itertools.permutations(order):
            undos: dict[str, NodeBypass] = {}
            for name in order:
                undos[name] = bypass_node(module, name)
                assert torch.equal(module(X)[0], expected(set(undos)))
            for name in back:
                undos.pop(name).undo()
                assert torch.equal(module(X)[0], expected(set(undos)))
            assert module.code == code


def test_several_inputs_that_fit_are_named_and_one_can_be_chosen() -> None:
    module = captured(lambda x, y: torch.sub(x.sin(), y), X, X)
    with pytest.raises(AmbiguousBypassError) as caught:
        bypass_node(module, "sub")
    assert str(caught.value) == (
        "can't bypass node 'sub' (sub.Tensor):\n"
        "  the result is float32[2, 3]; several inputs have that structure:\n"
        "    self: float32[2, 3]\n"
        "    other: float32[2, 3]\n"
        "Choose one by name or position, as in using='self'."
    )
    for using, expected in (("self", X.sin()), ("other", X), (0, X.sin()), (1, X), ("sin", X.sin())):
        without = bypass_node(module, "sub", using=using)
        assert torch.equal(module(X, X)[0], expected)
        without.undo()
    with pytest.raises(BypassError, match="using='third' is no input"):
        bypass_node(module, "sub", using="third")


def test_a_value_that_is_given_twice_is_one_input_and_lists_count() -> None:
    squared = captured(lambda x: x.mul(x), X)
    bypass_node(squared, "mul")
    assert torch.equal(squared(X)[0], X)
    joined = captured(lambda x, y: torch.cat([x, y]), X, X[:0])
    bypass_node(joined, "cat", using="tensors[0]")
    assert torch.equal(joined(X, X[:0])[0], X)


def test_results_that_are_taken_apart() -> None:
    module = captured(lambda x: torch.ops.aten.native_layer_norm(x, [3], None, None, 1e-5)[0].exp(), X)
    without = bypass_node(module, "native_layer_norm")
    assert torch.equal(module(X)[0], X.exp())
    with pytest.raises(BypassError, match="is bypassed already"):
        bypass_node(module, "native_layer_norm")
    without.undo()
    assert torch.equal(module(X)[0], nn.functional.layer_norm(X, [3]).exp())
    values = captured(lambda x: x.sort()[0] + x.sort()[1], X)
    with pytest.raises(BypassError, match=r"result getitem_3 is int64\[2, 3\]; no input has that structure"):
        bypass_node(values, "sort_1")


def test_a_result_without_an_input_of_its_structure_is_refused() -> None:
    module = captured(lambda x: x.sum() * 2, X)
    code = module.code
    with pytest.raises(BypassError, match=r"the result is float32\[\]; no input has that structure"):
        bypass_node(module, "sum_1")
    with pytest.raises(BypassError, match="a node of kind 'placeholder' computes nothing"):
        bypass_node(module, "args_0")
    with pytest.raises(UnknownPathError, match=r"no node 'mull' in this graph\. Did you mean 'mul'"):
        bypass_node(module, "mull")
    other = captured(lambda x: x.relu(), X)
    with pytest.raises(UnknownPathError, match="there is no node 'relu' in this graph"):
        bypass_node(module, next(node for node in other.graph.nodes if node.name == "relu"))
    for node in other.graph.nodes:
        node.meta.clear()
    with pytest.raises(BypassError, match="Run FakeTensorProp"):
        bypass_node(other, "relu")
    assert module.code == code


def write_itself(x: torch.Tensor) -> torch.Tensor:
    return x.sin().add_(1).exp()


def write_result(x: torch.Tensor) -> torch.Tensor:
    y = x.relu()
    y.add_(1)
    return y + x


def write_input(x: torch.Tensor) -> torch.Tensor:
    s = x.sin()
    y = s.relu()
    s.add_(1)
    return y + s


def write_view_of_input(x: torch.Tensor) -> torch.Tensor:
    s = x.sin()
    y = s.relu()
    s[0].add_(1)
    return y + s


def write_what_a_view_of_the_result_shows(x: torch.Tensor) -> torch.Tensor:
    s = x.sin()
    y = s.relu()[0]
    s.add_(1)
    return y.exp()


@pytest.mark.parametrize(
    ("function", "name", "text"),
    [
        (write_itself, "add_", "it may write the memory of 'sin'"),
        (write_result, "relu", "'add_' may write the memory of 'relu'"),
        (write_input, "relu", "'add_' may write the memory of 'relu', or of what would stand for it, 'sin'"),
        (write_view_of_input, "relu", "'add_' may write the memory"),
        (write_what_a_view_of_the_result_shows, "relu", "'add_' may write the memory"),
    ],
)
def test_what_a_write_would_show_is_refused(function: Callable[..., torch.Tensor], name: str, text: str) -> None:
    module = captured(function, X)
    code = module.code
    with pytest.raises(BypassError) as caught:
        bypass_node(module, name)
    assert text in str(caught.value)
    assert module.code == code
    assert torch.equal(module(X)[0], function(X))


def test_two_that_may_be_left_out_each_but_not_both() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        s = x.sin()
        first = s.relu()
        second = first.exp()
        s.add_(1)
        return second + s

    for order in (("relu", "exp"), ("exp", "relu")):
        module = captured(function, X)
        bypass_node(module, order[0])
        with pytest.raises(BypassError, match="may write"):
            bypass_node(module, order[1])
        without = {"relu": X.sin().exp(), "exp": X.sin().relu()}[order[0]]
        assert torch.equal(module(X)[0], without + (X.sin() + 1))


def test_a_write_after_the_last_use_does_not_matter() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        s = x.sin()
        y = s.relu().exp()
        s.add_(1)
        return y + s

    module = captured(function, X)
    bypass_node(module, "relu")
    assert torch.equal(module(X)[0], X.sin().exp() + (X.sin() + 1))


def test_batch_norm_in_training_writes_its_statistics() -> None:
    for train in (True, False):
        module = torch.export.export(nn.BatchNorm1d(3).train(train), (X,)).graph_module
        if train:
            with pytest.raises(BypassError, match="may write the memory of 'b_running_mean', 'b_running_var'"):
                bypass_node(module, "batch_norm")
        else:
            bypass_node(module, "batch_norm", using="input")
            assert "return (input_1,)" in module.code


def test_graphs_of_symbolic_tracing() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Tanh())
    module = traced(net)
    first, second = bypass_node(module, "_1"), bypass_node(module, "_0")
    assert torch.equal(module(X), X.tanh())
    second.undo()
    assert torch.equal(module(X), net[0](X).tanh())
    first.undo()
    assert torch.equal(module(X), net(X))
    for function, name in ((lambda x: torch.relu(x).exp(), "relu"), (lambda x: nn.functional.gelu(x).exp(), "gelu")):
        module = traced(function)
        bypass_node(module, name)
        assert torch.equal(module(X), X.exp())


@fx.wrap
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_what_is_not_known_to_be_harmless_counts_as_a_write() -> None:
    for function, name in (
        (lambda x: unknown(x).exp(), "unknown"),
        (lambda x: nn.functional.relu(x.sin(), inplace=True).exp(), "relu"),
        (lambda x: x.sin().add_(1).exp(), "add_"),
    ):
        with pytest.raises(BypassError, match="may write the memory of"):
            bypass_node(traced(function), name)
    for layer in (nn.ReLU(inplace=True), nn.BatchNorm1d(3)):
        with pytest.raises(BypassError, match="may write the memory of"):
            bypass_node(traced(nn.Sequential(layer)), "_0")


def test_copies_and_edits_by_others() -> None:
    module = captured(lambda x: x.sin().relu().exp(), X)
    without = bypass_node(module, "relu")
    twin = copy.deepcopy(module)
    assert torch.equal(twin(X)[0], X.sin().exp())
    bypass_node(twin, "sin")
    assert torch.equal(twin(X)[0], X.exp())
    assert torch.equal(module(X)[0], X.sin().exp())
    nodes = {node.name: node for node in module.graph.nodes}
    nodes["exp"].args = (nodes["args_0"],)
    with pytest.raises(BypassError, match="arguments of users were changed since"):
        without.undo()
    gone = captured(lambda x: x.sin().relu().exp(), X)
    without = bypass_node(gone, "relu")
    gone.graph.eliminate_dead_code()
    with pytest.raises(BypassError, match="out of the graph"):
        without.undo()


def test_swapping_beside_bypassing() -> None:
    for swap_first in (False, True):
        module = captured(lambda x: x.sin().relu().exp(), X)
        if swap_first:
            swapped, without = swap_node(module, "exp", torch.neg), bypass_node(module, "relu")
        else:
            without, swapped = bypass_node(module, "relu"), swap_node(module, "exp", torch.neg)
        assert torch.equal(module(X)[0], -X.sin())
        without.undo()
        assert torch.equal(module(X)[0], -X.sin().relu())
        swapped.undo()
        assert torch.equal(module(X)[0], X.sin().relu().exp())


def test_a_plain_graph_with_symbolic_sizes() -> None:
    shapes = {"x": {0: torch.export.Dim("n", min=2, max=9)}}

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x]).relu().exp()

    program = torch.export.export(Net(), (X,), dynamic_shapes=shapes)
    bypass_node(program.graph, "relu")
    program.graph_module.recompile()
    assert torch.equal(program.graph_module(X)[0], torch.cat([X, X]).exp())
    with pytest.raises(BypassError, match=r"the result is float32\[2\*"):
        bypass_node(program.graph, "cat")


def test_a_random_operator_can_be_left_out() -> None:
    module = captured(lambda x: nn.functional.dropout(x, 0.5, True).exp(), X)
    bypass_node(module, "dropout")
    assert torch.equal(module(X)[0], X.exp())
