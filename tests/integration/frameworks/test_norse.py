"""Norse's cells give the same spikes as their graphs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nir_bridge import Dynamics, to_nir
from nir_bridge.errors import ExportError
from tests.support.frameworks import assert_same, events, framework, strong

norse = framework("norse.torch")
lif = framework("norse.torch.functional.lif")
box = framework("norse.torch.module.lif_box")
resets = framework("norse.torch.functional.reset")
iaf = framework("norse.torch.module.iaf")


def compare(layers: Any, xs: Tensor, dynamics: Any = "norse") -> None:
    model = strong(norse.SequentialState(*layers), 10)

    def run() -> Tensor:
        found, state = [], None
        for x in xs:
            y, state = model(x, state)
            found.append(y.detach())
        return torch.stack(found)

    assert_same(model, xs, run, dynamics)


def parameters(**values: float) -> Any:
    return lif.LIFParameters(**{name: torch.tensor(value) for name, value in values.items()})


def test_cells() -> None:
    torch.manual_seed(0)
    first = norse.LIFCell(parameters(v_th=0.5, v_reset=-0.1))
    compare((nn.Linear(12, 20), first, nn.Linear(20, 5), norse.LIFCell()), events(12))


def test_box_cells() -> None:
    torch.manual_seed(0)
    compare((nn.Linear(12, 20), box.LIFBoxCell(), nn.Linear(20, 5), iaf.IAFCell()), events(12))


def test_subtraction() -> None:
    torch.manual_seed(0)
    neuron = box.LIFBoxCell(box.LIFBoxParameters(reset_method=resets.reset_subtract))
    compare((nn.Linear(12, 20), neuron), events(12), Dynamics.preset("norse", reset="subtract"))


def test_convolutions() -> None:
    torch.manual_seed(0)
    layers = nn.Conv2d(2, 4, 3), norse.LIFCell(), nn.Flatten(), nn.Linear(144, 5), norse.LIFCell()
    compare(layers, events(2, 8, 8))


def test_recurrent() -> None:
    torch.manual_seed(0)
    compare((norse.LIFRecurrentCell(12, 20), nn.Linear(20, 5), norse.LIFCell()), events(12))


def test_rest_elsewhere() -> None:
    torch.manual_seed(0)
    layers = nn.Linear(12, 20), norse.LIFCell(parameters(v_leak=0.1))
    compare(layers, events(12), Dynamics.preset("norse", initial_v="v_leak"))


def test_potentials() -> None:
    torch.manual_seed(0)
    model = strong(norse.SequentialState(nn.Linear(12, 20), norse.LIFCell(), nn.Linear(20, 5), norse.LICell()), 10)
    xs = events(12)
    net = to_nir(model, args=(xs[0],))
    assert {type(node).__name__ for node in net.nodes.values()} == {"Input", "Affine", "CubaLIF", "CubaLI", "Output"}


@pytest.mark.parametrize(
    ("neuron", "text"),
    [
        (lambda: norse.LIFAdExCell(), "LIFAdExCell has no meaning in NIR"),
        (lambda: norse.LIFCell(parameters(v_leak=0.1)), r"Dynamics.preset\('norse', initial_v='v_leak'\)"),
    ],
)
def test_refused(neuron: Any, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        to_nir(norse.SequentialState(nn.Linear(12, 20), neuron()), args=(torch.zeros(1, 12),))
