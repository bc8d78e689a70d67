"""Sinabs' layers, of series and of squeezed ones, give the same spikes as their graphs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nir_bridge import Dynamics, to_nir
from nir_bridge.errors import ExportError
from tests.support.frameworks import assert_same, events, framework, strong

layers = framework("sinabs.layers")
activation = framework("sinabs.activation")


def compare(model: nn.Module, xs: Tensor, dynamics: Any = "sinabs", batch_dims: int = 2) -> None:
    """Sinabs takes batch, then time, or both in one axis."""
    strong(model, 2)

    def run() -> Tensor:
        for module in model.modules():
            getattr(module, "reset_states", lambda: None)()
        return model(xs.transpose(0, 1)).transpose(0, 1) if batch_dims == 2 else model(xs)

    assert_same(model, xs, run, dynamics, batch_dims, example=xs[:1])


def test_leaky() -> None:
    torch.manual_seed(0)
    first = layers.LIF(tau_mem=10.0, norm_input=False)
    second = layers.LIF(tau_mem=8.0, tau_syn=5.0, norm_input=False)
    compare(nn.Sequential(nn.Linear(12, 20), first, nn.Linear(20, 5), second), events(12))


def test_input_normed() -> None:
    torch.manual_seed(0)
    neuron = layers.LIF(tau_mem=3.0, tau_syn=4.0)
    rules = Dynamics.preset("sinabs", input_gain="1-exp")
    compare(nn.Sequential(nn.Linear(12, 20), neuron), events(12), rules)


def test_integrators_of_single_spikes() -> None:
    torch.manual_seed(0)
    neurons = [layers.IAF(spike_fn=activation.SingleSpike) for _ in range(2)]
    model = nn.Sequential(nn.Linear(12, 20), neurons[0], nn.Linear(20, 5), neurons[1])
    compare(model, events(12), Dynamics.preset("sinabs", multi_spike=False))


def test_convolutions_with_pooling() -> None:
    torch.manual_seed(0)
    neurons = [layers.IAFSqueeze(batch_size=1) for _ in range(2)]
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), neurons[0], layers.SumPool2d(2), nn.Flatten(), nn.Linear(36, 5), neurons[1]
    )
    compare(model, events(2, 8, 8)[:, 0], batch_dims=1)


@pytest.mark.parametrize(
    ("bias", "dynamics"), [(False, "sinabs"), (True, Dynamics.preset("sinabs", feedback="target"))]
)
def test_recurrent(bias: bool, dynamics: Any) -> None:
    torch.manual_seed(0)
    connection = nn.Linear(20, 20, bias=bias)
    neuron = layers.LIFRecurrent(tau_mem=10.0, rec_connect=connection, norm_input=False)
    model = nn.Sequential(nn.Linear(12, 20), neuron, nn.Linear(20, 5), layers.IAF())
    compare(model, events(12), dynamics)


@pytest.mark.parametrize(
    ("neuron", "text"),
    [
        (lambda: layers.IAF(spike_fn=activation.SingleSpike), r"Dynamics.preset\('sinabs', multi_spike=False\)"),
        (lambda: layers.LIF(tau_mem=10.0), r"Dynamics.preset\('sinabs', input_gain='1-exp'\)"),
        (lambda: layers.IAF(min_v_mem=-1.0), "min_v_mem=-1.0"),
        (lambda: layers.IAF(spike_fn=activation.MaxSpike(3)), "spike_fn='MaxSpike'"),
        (lambda: layers.ALIF(tau_mem=10.0, tau_adapt=10.0, adapt_scale=1.0), "ALIF has no meaning in NIR"),
        (
            lambda: layers.IAFRecurrent(rec_connect=nn.Linear(20, 20)),
            r"Dynamics.preset\('sinabs', feedback='target'\)",
        ),
    ],
)
def test_refused(neuron: Any, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        to_nir(nn.Sequential(nn.Linear(12, 20), neuron()), args=(torch.zeros(1, 3, 12),), batch_dims=2)
