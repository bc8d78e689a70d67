"""Parameters, buffers and constants: names, order, ties, views, marks, and what is shared with the program."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.comparing import (
    assert_same_gradients,
    assert_same_run,
    assert_same_state,
    assert_unflattens,
    capture,
    differences,
)
from unflatten import unflatten

X = torch.randn(2, 3)


class Counter(nn.Module):
    mean: torch.Tensor
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, x: torch.Tensor, momentum: float = 0.5) -> torch.Tensor:
        self.seen += 1
        self.mean.lerp_(x.mean(0), momentum)
        return x - self.mean * self.seen


def test_parameters_are_the_programs_own_objects() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    program = torch.export.export(model, (X,))
    nested = unflatten(program, native_leaves=False)
    for name, value in nested.state_dict(keep_vars=True).items():
        assert value is program.state_dict[name]


def test_copy_state_copies_everything_and_keeps_ties() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x)) + torch.tensor([1.0, 2.0, 3.0])

    program = capture(Net(), (X,))
    nested = unflatten(program, copy_state=True)
    assert nested.a.weight is nested.b.weight
    own = {tensor.untyped_storage().data_ptr() for tensor in program.state_dict.values()}
    assert not own & {tensor.untyped_storage().data_ptr() for tensor in nested.state_dict().values()}
    assert torch.equal(nested(X), program.module()(X))


def test_running_changes_neither_the_program_nor_another_result() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = Counter()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.count(self.count(x), 0.1)

    program = capture(Net(), (X,))
    before = copy.deepcopy((program.state_dict, program.constants))
    first, second = unflatten(program), unflatten(program)
    first(X)
    assert not differences(before, (program.state_dict, program.constants))
    assert first.count.seen == 2
    assert second.count.seen == 0


@pytest.mark.parametrize("functional", [False, True])
def test_a_buffer_written_by_every_call_is_seen_by_the_next(functional: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = Counter()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.count(self.count(self.count(x) * 2, 0.1))

    model = Net()
    program = capture(model, (X,))
    if functional:
        program = program.run_decompositions({})
    nested = unflatten(program)
    assert_same_state(model, nested)
    assert_same_run(model, nested, (X,), times=3)


def test_buffers_that_are_views_of_a_written_buffer_follow_it() -> None:
    class Net(nn.Module):
        whole: torch.Tensor
        row: torch.Tensor
        turned: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("whole", torch.arange(6.0).reshape(2, 3))
            self.register_buffer("row", self.whole[1])
            self.register_buffer("turned", self.whole.t(), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.whole.mul_(2)
            return x + self.row + self.turned[0, 0]

    model = Net()
    nested = unflatten(torch.export.export(copy.deepcopy(model), (X,)))
    nested(X)
    assert torch.equal(nested.row, nested.whole[1])
    assert torch.equal(nested.turned, nested.whole.t())
    assert nested.row.untyped_storage().data_ptr() == nested.whole.untyped_storage().data_ptr()


def test_a_buffer_written_in_slices_and_returned_as_a_view() -> None:
    class Cache(nn.Module):
        kv: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kv", torch.zeros(4, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.kv[1:3] = x
            self.kv[0].add_(x.sum(0))
            return self.kv[:3]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cache, self.fc = Cache(), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            v = self.cache(x)
            return self.cache(self.fc(v)[1:]) + v

    model = Net()
    assert_unflattens(model, (X,))
    assert_unflattens(model, (X,), program=capture(model, (X,)).run_decompositions({}))


def test_ties_hold_and_train_together() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.head = nn.Embedding(5, 3), nn.Linear(3, 5)
            self.head.weight = self.emb.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.emb(ids))

    model, ids = Net(), (torch.tensor([[0, 3, 4]]),)
    nested = assert_unflattens(model, ids)
    assert nested.emb.weight is nested.head.weight
    assert_same_gradients(model, nested, ids)
    nested.load_state_dict(Net().state_dict())
    assert torch.equal(nested.emb.weight, nested.head.weight)


def test_ties_survive_saving_and_loading_the_program() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    file = io.BytesIO()
    torch.export.save(capture(Net(), (X,)), file)
    file.seek(0)
    nested = unflatten(torch.export.load(file))
    assert nested.a.weight is nested.b.weight


def test_non_persistent_buffers_written_read_idle_and_shared() -> None:
    class Cache(nn.Module):
        hist: torch.Tensor
        scale: torch.Tensor
        both: torch.Tensor

        def __init__(self, shared: torch.Tensor) -> None:
            super().__init__()
            for name in ("hist", "scale", "idle"):
                self.register_buffer(name, torch.rand(3), persistent=False)
            self.register_buffer("both", shared, persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.hist.add_(x.sum(0))
            self.both.mul_(0.5)
            return x * self.scale + self.hist + self.both

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            shared = torch.ones(3)
            self.a, self.b = Cache(shared), Cache(shared)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    nested = assert_unflattens(Net(), (X,))
    assert nested.a.both is nested.b.both
    assert not nested.state_dict()


def test_parameter_subclasses_and_marks_are_kept() -> None:
    class Special(nn.Parameter):
        tag: str

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = Special(torch.randn(3))
            self.w.tag = "first"
            self.frozen = nn.Parameter(torch.randn(3), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.w + self.frozen

    model = Net()
    nested = unflatten(torch.export.export(model, (X,)))
    copied = unflatten(torch.export.export(model, (X,)), copy_state=True)
    for made in (nested, copied):
        assert type(made.w) is Special
        assert made.w.tag == "first"
        assert not made.frozen.requires_grad


def test_plain_tensors_are_shared_attributes_outside_of_the_state_dict() -> None:
    class Sub(nn.Module):
        def __init__(self, t: torch.Tensor) -> None:
            super().__init__()
            self.t = t

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.t

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.t = torch.rand(3)
            self.a, self.b = Sub(self.t), Sub(self.t)
            self.many = [torch.rand(3), torch.rand(3)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x)) + self.t + self.many[0] * self.many[1]

    nested = assert_unflattens(Net(), (X,))
    assert nested.a.t is nested.b.t is nested.t


def test_literals_belong_to_the_module_whose_code_has_them() -> None:
    class Mask(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(torch.tensor([True, False, True]), x * torch.tensor([[0.5], [1.5]]), x - 1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask = Mask()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.mask(self.mask(x) + 1) + torch.tensor([1.0, 2.0, 3.0])

    model = Net()
    nested = assert_unflattens(model, (X,))
    assert torch.equal(nested.mask(X), model.mask(X))


def test_a_parents_buffer_given_to_children() -> None:
    class Shift(nn.Module):
        def forward(self, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
            return torch.sin(x) + table[: x.shape[0]]

    class Net(nn.Module):
        table: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.rand(6, 3))
            self.layers = nn.ModuleList(Shift() for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x, self.table)
            return x

    model = Net()
    nested = assert_unflattens(model, (X,), preserve_module_call_signature=("layers.0",))
    assert torch.equal(nested.layers[0](X, model.table), model.layers[0](X, model.table))
    assert_unflattens(model, (X,))


def test_a_childs_weight_used_by_its_parent_and_its_sibling() -> None:
    class Project(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(x, w) * w.sum()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enc, self.project = nn.Linear(3, 5, bias=False), Project()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.enc(x)
            return self.project(nn.functional.linear(h, self.enc.weight.t()), self.enc.weight) + h

    model = Net()
    cases: tuple[dict[str, Any], ...] = ({}, {"preserve_module_call_signature": ("enc", "project")})
    for options in cases:
        nested = assert_unflattens(model, (X,), **options)
        assert_same_gradients(model, nested, (X,))


def test_a_sibling_writes_and_reads_anothers_buffer() -> None:
    class Writer(nn.Module):
        other: Any

        def __init__(self, other: nn.Module) -> None:
            super().__init__()
            self.__dict__["other"] = other

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.other.total.add_(x.sum(0))
            return x * 2

    class Holder(nn.Module):
        total: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.total

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.holder = Holder()
            self.writer = Writer(self.holder)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.holder(self.writer(x))
            return self.holder(self.writer(x)) + self.holder.total

    model = Net()
    program = torch.export.export(model, (X,))
    nested = unflatten(program)
    reference: Any = program.module()
    for _ in range(3):
        assert torch.equal(nested(X), reference(X))
    assert torch.equal(nested.holder.total, reference.holder.total)


def test_parametrizations_keep_their_names_and_train() -> None:
    class Symmetric(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = nn.Parameter(torch.tensor(1.5))

        def forward(self, w: torch.Tensor) -> torch.Tensor:
            return (w + w.T) * self.k

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            nn.utils.parametrize.register_parametrization(self.fc, "weight", Symmetric())
            self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 2, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.fc(self.conv(x)))

    model = Net()
    nested = assert_unflattens(model, (X,))
    assert_same_gradients(model, nested, (X,))
