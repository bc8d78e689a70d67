"""SpikingJelly's neurons, single steps and series, give the same spikes as their graphs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nir_bridge import Dynamics, to_nir
from nir_bridge.errors import ExportError
from tests.support.frameworks import assert_same, events, framework, strong

neuron = framework("spikingjelly.activation_based.neuron")
layer = framework("spikingjelly.activation_based.layer")
functional = framework("spikingjelly.activation_based.functional")


def compare(
    model: nn.Module, xs: Tensor, dynamics: Any = "spikingjelly", series: bool = False, factor: float = 3
) -> None:
    strong(model, factor).eval()
    functional.set_step_mode(model, "m" if series else "s")

    def run() -> Tensor:
        functional.reset_net(model)
        return model(xs) if series else torch.stack([model(x) for x in xs])

    assert_same(model, xs, run, dynamics, 2 if series else 1, xs if series else None)


def test_leaky() -> None:
    torch.manual_seed(0)
    first, second = neuron.LIFNode(tau=3.0), neuron.LIFNode(tau=2.0, decay_input=False)
    compare(nn.Sequential(nn.Linear(12, 20), first, nn.Linear(20, 5), second), events(12))


@pytest.mark.parametrize("series", [False, True])
def test_layers(series: bool) -> None:
    torch.manual_seed(0)
    first, second = neuron.ParametricLIFNode(init_tau=3.0), neuron.IFNode()
    model = nn.Sequential(layer.Linear(12, 20), first, layer.Linear(20, 5, bias=False), second)
    compare(model, events(12), series=series)


@pytest.mark.parametrize("series", [False, True])
def test_convolutions(series: bool) -> None:
    torch.manual_seed(0)
    first = layer.Conv2d(2, 4, 3), layer.BatchNorm2d(4), neuron.IFNode(), layer.AvgPool2d(2), layer.Flatten()
    compare(nn.Sequential(*first, layer.Linear(36, 5), neuron.LIFNode(v_threshold=0.2)), events(2, 8, 8), series=series)


def test_recurrent() -> None:
    torch.manual_seed(0)
    first = layer.LinearRecurrentContainer(neuron.LIFNode(), 12, 12)
    compare(nn.Sequential(first, nn.Linear(12, 5), neuron.IFNode()), events(12))


def test_resets_elsewhere() -> None:
    torch.manual_seed(0)
    first, second = neuron.LIFNode(v_reset=-0.2), neuron.IFNode(v_reset=-0.1)
    compare(nn.Sequential(nn.Linear(12, 20), first, nn.Linear(20, 5), second), events(12))


def test_subtraction() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 20), neuron.LIFNode(v_reset=None))
    compare(model, events(12), Dynamics.preset("spikingjelly", reset="subtract"))


def test_synapses() -> None:
    torch.manual_seed(0)
    compare(nn.Sequential(nn.Linear(12, 20), neuron.CUBALIFNode(0.5, 0.8)), events(12))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: neuron.LIFNode(v_reset=None), r"Dynamics.preset\('spikingjelly', reset='subtract'\)"),
        (lambda: neuron.LIAFNode(torch.relu, False), "a LIFNode with another single_step"),
        (lambda: neuron.QIFNode(), "QIFNode has no meaning in NIR"),
        (lambda: neuron.CUBALIFNode(0.5, 0.8, v_reset=-0.1), "starts from a potential of -0.1"),
    ],
)
def test_refused(made: Any, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        to_nir(nn.Sequential(nn.Linear(12, 20), made()), args=(torch.zeros(1, 12),))
