"""What functions of torch become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nir_bridge import to_nir
from nir_bridge.errors import ExportError, NoMeaningError
from tests.support.nir_models import difference, kinds, model

X = torch.linspace(-1, 1, 8).reshape(2, 4)
IMAGE = torch.linspace(-1, 1, 2 * 3 * 6 * 4).reshape(2, 3, 6, 4)
Forward = Callable[[Any, torch.Tensor], Any]


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(torch, name)(*args, **kwargs)


def layers(forward: Forward) -> nn.Module:
    torch.manual_seed(0)
    return model(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4, bias=False)).eval()


def in_place(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = z = self.a(x)
    y += self.b(x)
    return z


SUMS: list[Forward] = [
    lambda self, x: self.a(x) + self.b(x),
    lambda self, x: torch.add(self.a(x), self.b(x)),
    lambda self, x: sum([self.a(x), self.b(x)]),
    lambda self, x: self.a(x).add_(self.b(x)),
    in_place,
]


@pytest.mark.parametrize("forward", SUMS)
def test_additions_are_edges(forward: Forward) -> None:
    graph = to_nir(layers(forward))
    assert sorted(graph.edges) == [("a", "output"), ("b", "output"), ("x", "a"), ("x", "b")]
    assert difference(layers(forward), X) == 0.0


def twice(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = self.a(x)
    return y + y


def test_a_signal_twice_is_two_edges() -> None:
    graph = to_nir(layers(twice))
    assert graph.edges == [("x", "a"), ("a", "output"), ("a", "output")]


def shifted_beside(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = self.a(x)
    return self.b(y) + (y + 1)


NODES: list[tuple[Forward, list[str]]] = [
    (lambda self, x: self.a(x) + 1.5, ["Affine"]),
    (lambda self, x: 1 - self.a(x), ["Affine", "Scale", "Affine"]),
    (lambda self, x: self.b(x) + self.a.bias, ["Affine"]),
    (lambda self, x: self.a(x) + self.b(x) + 1, ["Affine", "Linear"]),
    (lambda self, x: torch.sub(self.a(x), x, alpha=2), ["Affine", "Scale"]),
    (lambda self, x: -self.a(x) / 3, ["Affine", "Scale", "Scale"]),
    (lambda self, x: 2 * self.a(x), ["Affine", "Scale"]),
    (lambda self, x: self.a(x) * self.a.bias, ["Affine", "Scale"]),
    (lambda self, x: x + 1, ["Affine"]),
    (shifted_beside, ["Affine", "Linear", "Affine"]),
    (lambda self, x: self.a(x).contiguous().clone().float(), ["Affine"]),
    (lambda self, x: F.dropout(self.a(x), training=self.training), ["Affine"]),
    (lambda self, x: self.a(x) + torch.zeros_like(x), ["Affine"]),
    (lambda self, x: F.linear(x, self.b.weight), ["Linear"]),
    (lambda self, x: x @ self.b.weight, ["Linear"]),
    (lambda self, x: self.a.bias * self.a(x), ["Affine", "Scale"]),
    (lambda self, x: torch.mul(input=x, other=self.a.bias), ["Scale"]),
    (lambda self, x: torch.rsub(self.a(x), x), ["Affine", "Scale"]),
    (lambda self, x: (self.a(x) > self.a.bias).float(), ["Affine", "Threshold"]),
    (lambda self, x: torch.lt(self.a.bias, self.a(x)).float(), ["Affine", "Threshold"]),
    (lambda self, x: torch.flatten(self.a(x), 0, 0)[:], ["Affine"]),
    (lambda self, x: self.a(x).squeeze(1).type_as(x), ["Affine"]),
    (lambda self, x: x + torch.ones(4) + 3, ["Affine"]),
    (lambda self, x: (x * 2 + torch.ones(4)) * 2 + 3, ["Scale", "Affine", "Scale", "Affine"]),
    (lambda self, x: torch.flatten(self.a(x), 1), ["Affine", "Flatten"]),
    (lambda self, x: (self.a(x) > 0.25).float(), ["Affine", "Threshold"]),
    (lambda self, x: F.batch_norm(self.a(x), torch.ones(4), torch.ones(4) * 2, eps=0.5), ["Affine"]),
]


@pytest.mark.parametrize(("forward", "wanted"), NODES)
def test_functions(forward: Forward, wanted: list[str]) -> None:
    found = kinds(to_nir(layers(forward), args=(X,)))
    assert [kind for kind in found.values() if kind not in ("Input", "Output")] == wanted
    assert difference(layers(forward), X) < 1e-6


IMAGES: list[tuple[Forward, list[str]]] = [
    (lambda _, x: F.avg_pool2d(x, 2, padding=1), ["AvgPool2d"]),
    (lambda _, x: F.avg_pool2d(x, (3, 2), divisor_override=1), ["SumPool2d"]),
    (lambda _, x: F.lp_pool2d(x, 1, 2), ["SumPool2d"]),
    (lambda _, x: F.conv2d(x, torch.ones(3, 1, 3, 2) / 8, padding="same", groups=3), ["Conv2d"]),
    (lambda _, x: F.conv2d(x, torch.ones(2, 3, 2, 1) / 8, stride=(2, 1)) + torch.ones(2, 1, 1), ["Conv2d"]),
    (lambda _, x: x + torch.arange(3.0).reshape(3, 1, 1), ["Conv2d"]),
    (lambda _, x: x + torch.arange(4.0), ["Affine"]),
    (lambda _, x: F.conv2d(x, torch.ones(3, 3, 1, 1) / 8) + torch.arange(4.0), ["Conv2d", "Affine"]),
    (lambda _, x: x * torch.arange(3.0).reshape(3, 1, 1), ["Scale"]),
    (lambda _, x: x.view(2, -1), ["Flatten"]),
    (lambda _, x: x.flatten(2), ["Flatten"]),
    (lambda _, x: x.reshape(2, 18, 4), ["Flatten"]),
    (lambda _, x: x.reshape(x.shape), []),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize(("forward", "wanted"), IMAGES)
def test_functions_of_images(forward: Forward, wanted: list[str]) -> None:
    found = kinds(to_nir(model(forward), args=(IMAGE,)))
    assert [kind for kind in found.values() if kind not in ("Input", "Output")] == wanted
    assert difference(model(forward), IMAGE) < 1e-5


def written_view(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = self.a(x)
    view = y.view(-1, 4)
    y += 1
    return view


WITHOUT_MEANING: list[tuple[Forward, str]] = [
    (lambda self, x: F.relu(self.a(x)), "torch function 'relu' has no meaning"),
    (lambda self, x: self.a(x) * self.b(x), "product of two signals"),
    (lambda self, x: 1 / self.a(x), "'__rdiv__' has no meaning"),
    (lambda self, x: torch.cat([self.a(x), x], 1), "'cat' has no meaning"),
    (lambda self, x: self.a(x).view(-1), "changes batch axes"),
    (lambda self, x: self.a(x).T, "property .T has no meaning"),
    (lambda self, x: self.a(x)[:, :2], "part of a signal"),
    (lambda self, x: self.a(x) if x.max() > 0 else x, "'max' has no meaning"),
    (lambda self, x: self.a(x) if bool(x[0, 0] > 0) else x, "meaning|values of a signal"),
    (lambda self, x: self.a(x) >= 1, "compare with '>'"),
    (lambda self, x: (self.a(x) < 1).float(), "comparison of a signal with a constant"),
    (lambda self, x: (self.a(x) >= self.a.bias).float(), "compare with '>'"),
    (lambda self, x: torch.gt(torch.zeros(2, 4), x).float(), "comparison of a signal with a constant"),
    (lambda self, x: (x > self.a(x)).float(), "comparison of a signal with a constant"),
    (lambda self, x: F.linear(self.b.weight, x), "weights that depend on the input"),
    (lambda self, x: torch.ones(2, 4) / x, "only a division by a constant, without rounding"),
    (lambda self, x: torch.div(x, 2, rounding_mode="floor"), "only a division by a constant, without rounding"),
    (lambda self, x: x / 0, "a division by zero"),
    (lambda self, x: torch.ones(2, 2) @ x, "only `signal @ constant`"),
    (lambda self, x: x @ torch.ones(4), "the constant has 1 axes; a matrix has 2"),
    (lambda self, x: x * torch.arange(8.0).reshape(2, 4), "a constant with batch axes"),
    (lambda self, x: x + torch.ones(3, 2, 4), "a constant with batch axes"),
    (lambda self, x: x * torch.ones(4, dtype=torch.complex64), "complex numbers"),
    (lambda self, x: x.view(torch.int32), "a view as another type"),
    (lambda self, x: x.view(2, 2, 2), r"from \(4,\) to \(2, 2\) is no joining of neighbouring axes"),
    (lambda self, x: torch.flatten(x), r"changes batch axes, from \(2, 4\) to \(8,\)"),
    (lambda self, x: self.a(x)[:, :1].squeeze(1), "part of a signal"),
    (lambda self, x: self.a(x) * x[0, 0].item(), "part of a signal|reads the values"),
    (lambda self, x: self.a(x) * x.tolist()[0][0], "'tolist' reads the values of a signal"),
    (lambda self, x: call("sub", x, x, alpha=torch.tensor(2.0)), "alpha has to be a number"),
    (lambda self, x: torch.stack([x, torch.ones(2, 4)], 1), "steps that are no signals"),
    (lambda self, x: F.batch_norm(x, None, None, training=True), r"call model.eval\(\) first"),
    (lambda self, x: F.batch_norm(x, torch.ones(4), torch.ones(4), training=True), r"call model.eval\(\) first"),
    (lambda self, x: (self.a(x), torch.ones(3)), "does not depend on its inputs"),
    (lambda self, x: self.a(x)[..., :1] + x, "part of a signal"),
    (lambda self, x: self.a(x).long(), "real numbers"),
    (lambda self, x: self.a(x) + torch.vmap(torch.relu)(x), "aten.relu.default is called on a signal"),
    (lambda self, x: x[:, 0], "of input 'x' only the parts 0 of 4 are used"),
    (
        lambda self, x: torch.stack([self.a(x), x], 1),
        "a part of a signal, or signals side by side",
    ),
]


@pytest.mark.parametrize(("forward", "named"), WITHOUT_MEANING)
def test_what_has_no_meaning(forward: Forward, named: str) -> None:
    with pytest.raises(NoMeaningError, match=named):
        to_nir(layers(forward), args=(X,))


IMAGES_WITHOUT_MEANING: list[tuple[Forward, str]] = [
    (lambda _, x: F.avg_pool2d(x, 2, ceil_mode=True), "avg_pool2d.*ceil_mode=True"),
    (lambda _, x: F.avg_pool2d(x, 2, padding=1, count_include_pad=False), "count_include_pad=False"),
    (lambda _, x: F.avg_pool2d(x, 2, divisor_override=3), "divisor_override has to be 1 or the size"),
    (lambda _, x: F.lp_pool2d(x, 2, 2), "only norm_type=1"),
    (lambda _, x: F.lp_pool2d(x, 1, 2, ceil_mode=True), "lp_pool2d.*ceil_mode=True"),
    (lambda _, x: x.view(2, 12, 6), r"from \(3, 6, 4\) to \(12, 6\) is no joining"),
    (lambda _, x: x[:, :, :, :1].squeeze(3), "part of a signal"),
]
LAYERS_WITHOUT_MEANING: list[tuple[nn.Module, int, str]] = [
    (nn.Conv2d(3, 2, 1, padding=1, padding_mode="circular"), 1, "padding_mode='circular'"),
    (nn.AvgPool2d(2, ceil_mode=True), 1, "ceil_mode=True"),
    (nn.AvgPool2d(2, padding=1, count_include_pad=False), 1, "count_include_pad=False"),
    (nn.AvgPool2d(2, divisor_override=3), 1, "divisor_override has to be 1 or the size"),
    (nn.LPPool2d(1, 2, ceil_mode=True), 1, "ceil_mode=True"),
    (nn.Flatten(0), 1, "start_dim=0 joins batch axes, of which there are 1"),
    (nn.BatchNorm2d(3).eval(), 2, "takes exactly one batch axis"),
]


@pytest.mark.parametrize(("forward", "named"), IMAGES_WITHOUT_MEANING)
def test_what_has_no_meaning_for_images(forward: Forward, named: str) -> None:
    with pytest.raises(NoMeaningError, match=named):
        to_nir(model(forward), args=(IMAGE,))


@pytest.mark.parametrize(("layer", "batch_dims", "named"), LAYERS_WITHOUT_MEANING)
def test_settings_of_layers_without_meaning(layer: nn.Module, batch_dims: int, named: str) -> None:
    with pytest.raises(NoMeaningError, match=rf"module '0' \({type(layer).__name__}\).*{named}"):
        to_nir(nn.Sequential(layer), args=(IMAGE[(None,) * (batch_dims - 1)],), batch_dims=batch_dims)


def test_shapes_without_enough_axes() -> None:
    with pytest.raises(ExportError, match=r"takes 3 channels and 2 spatial axes, but the batch-less shape is \(6, 4\)"):
        to_nir(nn.Conv2d(3, 2, 1), args=(IMAGE[0],))
    with pytest.raises(ExportError, match="a constant is added to a single number"):
        to_nir(model(lambda _, x: x + 1), args=(torch.ones(3),))
    with pytest.raises(NoMeaningError, match=r"input 'x' is of type torch\.complex64"):
        to_nir(model(lambda _, x: x), args=(X.to(torch.complex64),))
    with pytest.raises(ExportError, match="the model takes no tensor"):
        to_nir(model(lambda self: self.a.bias, a=nn.Linear(4, 4)), args=())


def test_a_tensor_whose_memory_was_written_to() -> None:
    with pytest.raises(ExportError, match="shares its memory"):
        to_nir(layers(written_view), args=(X,))


def normalised_beside(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = self.a(x)
    return self.n(y) + y


def test_normalisation() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(60, 5), nn.BatchNorm1d(5))
    net(IMAGE)
    net.eval()
    assert list(kinds(to_nir(net, args=(IMAGE,))).values()) == ["Input", "Conv2d", "Flatten", "Affine", "Output"]
    assert difference(net, IMAGE) < 1e-5
    first = nn.Sequential(nn.BatchNorm2d(3)).eval()
    assert kinds(to_nir(first, args=(IMAGE,)))["0"] == "Conv2d"
    assert difference(first, IMAGE) < 1e-6
    beside = model(lambda self, x: self.n(self.a(x)) + self.a(x), a=nn.Linear(4, 4), n=nn.BatchNorm1d(4)).eval()
    assert difference(beside, X) < 1e-6
    used = model(normalised_beside, a=nn.Linear(4, 4), n=nn.BatchNorm1d(4)).eval()
    assert difference(used, X) < 1e-6


def test_a_convolution_without_bias_is_written_with_zeros() -> None:
    node = to_nir(nn.Conv1d(2, 3, 3, bias=False), args=(torch.ones(1, 2, 5),)).nodes["conv1d"]
    assert isinstance(node, nir.Conv1d)
    assert node.bias.tolist() == [0, 0, 0]
