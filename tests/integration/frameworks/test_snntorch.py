"""snnTorch's neurons, with hidden states and explicit ones, give the same spikes as their graphs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nir_bridge import Dynamics, to_nir
from nir_bridge.errors import ExportError
from tests.support.frameworks import assert_same, events, framework, strong

snn = framework("snntorch")
ZERO: dict[str, Any] = {"init_hidden": True, "reset_mechanism": "zero", "reset_delay": False}
DELAYED = Dynamics.preset("snntorch", reset="snntorch_delayed")


def compare(model: nn.Module, xs: Tensor, dynamics: Any = "snntorch") -> None:
    def run() -> Tensor:
        for module in model.modules():
            getattr(module, "reset_mem", lambda: None)()
        return torch.stack([model(x) for x in xs])

    assert_same(model, xs, run, dynamics)


class Explicit(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.fc1, self.lif1 = nn.Linear(12, 20), snn.Leaky(beta=torch.linspace(0.1, 0.95, 20), **options)
        self.fc2, self.lif2 = nn.Linear(20, 5), snn.Leaky(beta=0.8, threshold=0.7, **options)

    def forward(self, x: Tensor, mem1: Any = None, mem2: Any = None) -> Any:
        z, mem1 = self.lif1(self.fc1(x), mem1)
        z, mem2 = self.lif2(self.fc2(z), mem2)
        return z, mem1, mem2


@pytest.mark.parametrize(
    ("options", "dynamics"),
    [
        ({"reset_mechanism": "zero", "reset_delay": False}, "snntorch"),
        ({"reset_mechanism": "zero"}, "snntorch"),
        ({}, DELAYED),
        ({"reset_delay": False}, Dynamics.preset("snntorch", reset="snntorch_subtract")),
    ],
)
def test_states_given_by_hand(options: Any, dynamics: Any) -> None:
    torch.manual_seed(0)
    model = strong(Explicit(**options), 3)
    xs = events(12)

    def run() -> Tensor:
        found, mem1, mem2 = [], torch.zeros(2, 20), torch.zeros(2, 5)
        for x in xs:
            z, mem1, mem2 = model(x, mem1, mem2)
            found.append(z)
        return torch.stack(found)

    assert_same(model, xs, run, dynamics)


def test_synapses() -> None:
    torch.manual_seed(0)
    layers = nn.Linear(12, 20), snn.Leaky(0.9, **ZERO), nn.Linear(20, 5), snn.Synaptic(0.7, 0.8, **ZERO)
    compare(strong(nn.Sequential(*layers), 3), events(12))


def test_convolutions() -> None:
    torch.manual_seed(0)
    first = nn.Conv2d(2, 4, 3), snn.Leaky(0.9, **ZERO), nn.AvgPool2d(2), nn.Flatten()
    compare(strong(nn.Sequential(*first, nn.Linear(36, 5), snn.Leaky(0.8, **ZERO)), 3), events(2, 8, 8))


@pytest.mark.parametrize("options", [{"linear_features": 20}, {"all_to_all": False, "V": torch.linspace(-1, 1, 20)}])
def test_recurrent(options: Any) -> None:
    torch.manual_seed(0)
    layers = nn.Linear(12, 20), snn.RLeaky(0.9, **options, **ZERO), nn.Linear(20, 5), snn.Leaky(0.8, **ZERO)
    compare(strong(nn.Sequential(*layers), 3), events(12))


def test_recurrent_convolution() -> None:
    torch.manual_seed(0)
    first = nn.Conv2d(2, 4, 3), snn.RLeaky(0.9, conv2d_channels=4, kernel_size=3, **ZERO), nn.Flatten()
    compare(strong(nn.Sequential(*first, nn.Linear(144, 5), snn.Leaky(0.8, **ZERO)), 2), events(2, 8, 8))


def test_recurrent_with_synapse() -> None:
    torch.manual_seed(0)
    first = nn.Linear(12, 20), snn.RSynaptic(0.5, 0.9, linear_features=20, init_hidden=True)
    second = nn.Linear(20, 5), snn.Synaptic(0.6, 0.8, init_hidden=True)
    compare(strong(nn.Sequential(*first, *second), 3), events(12), DELAYED)


def test_lapicque() -> None:
    torch.manual_seed(0)
    neuron = snn.Lapicque(R=5.0, C=2.0, time_step=1.0, init_hidden=True)
    compare(strong(nn.Sequential(nn.Linear(12, 20), neuron), 3), events(12), DELAYED)


@pytest.mark.parametrize(
    ("neuron", "text"),
    [
        (lambda: snn.Leaky(0.9), r"Dynamics.preset\('snntorch', reset='snntorch_delayed'\)"),
        (lambda: snn.Leaky(0.9, reset_mechanism="none"), "reset_mechanism='none'"),
        (lambda: snn.Synaptic(0.8, 0.9, reset_mechanism="zero"), "reset_mechanism='zero'"),
        (lambda: snn.Leaky(0.9, graded_spikes_factor=2.0, **ZERO), "graded_spikes_factor=2.0"),
        (lambda: snn.RSynaptic(0.5, 0.9, linear_features=20, **ZERO), "reset_delay=False"),
        (lambda: snn.Alpha(0.8, 0.7, init_hidden=True), "Alpha has no meaning in NIR"),
    ],
)
def test_refused(neuron: Any, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        to_nir(nn.Sequential(nn.Linear(12, 20), neuron()), args=(torch.zeros(1, 12),))
