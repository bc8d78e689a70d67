"""What neurons of frameworks mean, without any framework: by the names of classes, and steps as nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import nir
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nir_bridge import Dynamics, from_nir, presets, to_nir
from nir_bridge.errors import ExportError
from nir_bridge.frameworks import framework_maps, presets_in
from nir_bridge.frameworks.cells import Cell, node_of


def pretend(name: str, base: type[nn.Module] = nn.Identity) -> type[nn.Module]:
    """A class with the name of a framework's."""
    module, _, kind = name.rpartition(".")
    return type(kind, (base,), {"__module__": module})


def values(*numbers: float) -> Any:
    return np.array(numbers)


def rule(name: str) -> Dynamics:
    return Dynamics.preset(name)


STEPWISE = [name for name in presets() if name not in {"exact", "spyx"}]


@pytest.mark.parametrize("preset", STEPWISE)
def test_a_step_is_the_same_under_all_rules(preset: str) -> None:
    rules = rule(preset)
    gain = 1.0 if rules.input_gain == "one" else 0.3
    rest = 0.0 if rules.initial_v == "zero" else 0.2
    node = node_of(
        Cell(values(0.5, 0.9), values(gain, gain), leak=values(rest, rest), start=values(rest, rest)), rules, preset
    )
    made = from_nir(node, dynamics=rules, dtype=torch.float64)
    v, _ = made(torch.tensor([1.0, 2.0], dtype=torch.float64))
    expected = torch.tensor([gain, 2 * gain], dtype=torch.float64) + rest
    torch.testing.assert_close(v, expected)


@pytest.mark.parametrize("preset", ["nir", "spikingjelly"])
def test_an_integrator(preset: str) -> None:
    node = node_of(Cell(values(1.0), values(2.0), threshold=values(3.0)), rule(preset), preset)
    assert isinstance(node, nir.IF)
    made = from_nir(node, dynamics=preset)
    assert made(torch.ones(1))[1].v.item() == pytest.approx(2.0)


def test_a_synapse() -> None:
    node = node_of(Cell(values(0.5), decay_syn=values(0.25)), rule("sinabs"), "sinabs")
    assert isinstance(node, nir.CubaLI)
    assert node.tau_syn == pytest.approx(-1 / np.log(0.25))


@pytest.mark.parametrize(
    ("cell", "preset", "text"),
    [
        (Cell(values(1.5)), "nir", "the potential keeps 1.5 of itself in a step"),
        (Cell(values(0.0)), "sinabs", "the potential keeps 0 of itself"),
        (Cell(values(0.5), decay_syn=values(1.0)), "nir", "the current keeps 1 of itself"),
        (Cell(values(0.5), values(0.5)), "sinabs", r"input_gain='one'.*preset\('sinabs', input_gain='1-exp'\)"),
        (Cell(values(0.5), start=values(1.0)), "norse", "starts from a potential of .*1.*, but rests at 0"),
        (Cell(values(0.5), leak=values(1.0), start=values(1.0)), "norse", "initial_v='v_leak'"),
        (Cell(values(0.5, 0.5), values(1.0, 1.0, 1.0)), "nir", "don't fit together"),
        (Cell(values(0.5), threshold=values(-1.0)), "sinabs", "threshold has to be positive"),
        (Cell(values(0.5), threshold=values(1.0), needs={"reset": "subtract"}), "nir", "reset='subtract'"),
        (Cell(values(0.5)), "exact", "no exact solution"),
    ],
)
def test_steps_that_no_node_takes(cell: Cell, preset: str, text: str) -> None:
    with pytest.raises((ExportError, ValueError), match=text):
        node_of(cell, rule(preset), preset)


def cell_of_norse(base: type[nn.Module], **changes: Any) -> Any:
    made: Any = base()
    parameters = {"tau_mem_inv": 100.0, "v_leak": 0.0, "v_th": 1.0, "v_reset": 0.0, "method": "super"}
    numbers = {name: torch.tensor(value) if isinstance(value, float) else value for name, value in parameters.items()}
    made.p, made.dt = SimpleNamespace(**{**numbers, **changes}), 1e-3
    return made


BOX = "norse.torch.module.lif_box.LIFBoxCell"


def test_classes_are_known_by_their_names_and_those_they_derive_from() -> None:
    known = pretend(BOX)
    derived = type("Mine", (known,), {"__module__": "mine"})
    model = nn.Sequential(nn.Linear(2, 3), cell_of_norse(derived))
    assert presets_in(model) == ["norse"]
    graph = to_nir(model, args=(torch.zeros(1, 2),))
    assert isinstance(graph.nodes["1"], nir.LIF)
    assert graph.nodes["1"].tau == pytest.approx(np.full(3, 0.01))
    assert graph.metadata["nir_bridge"]["dynamics"] == "norse"


def test_another_forward_is_another_neuron() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return x + x

    derived = type("Mine", (pretend(BOX),), {"__module__": "mine", "forward": forward})
    graph = to_nir(nn.Sequential(cell_of_norse(derived)), args=(torch.zeros(1, 2),))
    assert not any(isinstance(node, nir.LIF) for node in graph.nodes.values())


def test_neurons_of_two_frameworks_need_rules() -> None:
    sinabs = pretend("sinabs.layers.merge.Merge")
    model = nn.Sequential(cell_of_norse(pretend(BOX)), sinabs())
    with pytest.raises(ValueError, match="neurons of different dynamics"):
        to_nir(model, args=(torch.zeros(1, 2),))


def test_errors_name_module_and_field() -> None:
    model = nn.Sequential(nn.Identity(), cell_of_norse(pretend(BOX), method="logistic"))
    with pytest.raises(ExportError, match=r"module '1' \(LIFBoxCell\): p.method='logistic' has no meaning"):
        to_nir(model, args=(torch.zeros(1, 2),))


def test_all_maps_say_whose_they_are() -> None:
    found = framework_maps()
    assert {mapper.preset for mapper in found.values()} == {"snntorch", "norse", "sinabs", "spikingjelly"}
    assert all(name in mapper.names for name, mapper in found.items())


def test_delayed_subtraction() -> None:
    """What snnTorch does by default, by hand."""
    node = nir.LIF(*(np.full(1, value) for value in (1e-3, 10.0, 0.0, 1.0, 0.0)))
    net = from_nir(node, dynamics=Dynamics(reset="snntorch_delayed"))
    potential, state, last = torch.zeros(1), None, torch.zeros(1)
    for x in torch.rand(50, 1, generator=torch.Generator().manual_seed(0)):
        y, state = net(x, state)
        potential = net.coefficients(known=True)[0] * potential + x - last * 1.0
        last = (potential > 1).float()
        assert torch.equal(y, last)
        torch.testing.assert_close(state.v, potential)
