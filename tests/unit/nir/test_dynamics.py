"""The presets reproduce the frameworks that they are named after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nir_bridge import Dynamics, from_nir
from nir_bridge.errors import DynamicsError
from tests.support.nir_graphs import graph, lif

DATA = Path(__file__).parents[2] / "data" / "nir"
FRAMEWORKS = np.load(DATA / "frameworks.npz")
PAPER = np.load(DATA / "paper.npz")
NAMES = sorted(name.removesuffix("_in") for name in FRAMEWORKS if name.endswith("_in"))


def floats(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float32))


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_outputs_of_frameworks(name: str, layerwise: bool) -> None:
    changes = {"multi_spike": False} if name.endswith("single") else {}
    dynamics = Dynamics.preset(name.split("_", maxsplit=1)[0], **changes)
    ys, _ = from_nir(DATA / f"{name}.nir", dynamics=dynamics).run(floats(FRAMEWORKS[f"{name}_in"]), layerwise=layerwise)
    expected = floats(FRAMEWORKS[f"{name}_out"])
    if torch.equal(expected, expected.round()):
        assert torch.equal(ys, expected)
    else:
        torch.testing.assert_close(ys, expected, rtol=0, atol=1e-5)


SINGLE = [
    ("exact", 1.0, 1.0),
    ("norse", 1.0, 1.0),
    ("snntorch", 1.0, 25.0),
    ("sinabs", 0.04, 1.0),
    ("rockpool", 0.04, 1.0),
]


@pytest.mark.parametrize(("preset", "weight", "unit"), SINGLE)
def test_the_single_neuron_of_the_paper(preset: str, weight: float, unit: float) -> None:
    """Sinabs and Rockpool take the gain from the weight, snnTorch gives the voltage in other units."""
    net = from_nir(DATA / "lif_norse.nir", dynamics=preset, dt=1e-4)
    net.get_submodule("0").weight.fill_(weight)
    spikes, _, recorded = net.run(floats(PAPER["lif_input"])[:, None], record=("1:v",))
    assert np.array_equal(spikes[:, 0].numpy(), PAPER[f"{preset}_spikes"])
    expected = PAPER[f"{preset}_v"]
    error = np.abs(recorded["1:v"][:, 0].numpy() * unit - expected).max()
    assert error < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("preset", ["snntorch", "norse"])
def test_rasters_of_the_recurrent_network_of_the_paper(preset: str, layerwise: bool) -> None:
    net = from_nir(DATA / "braille_noDelay_bias_zero.nir", dynamics=preset, dt=1e-4)
    _, _, recorded = net.run(floats(PAPER["braille_input"]), record=("lif1.lif",), layerwise=layerwise)
    assert np.array_equal(recorded["lif1.lif"].numpy(), PAPER[f"braille_{preset}"])


def test_rockpools_own_file() -> None:
    net = from_nir(DATA / "lif_rockpool.nir", dynamics="rockpool", dt=1e-4)
    spikes, _ = net.run(floats(PAPER["lif_input"])[:, None])
    assert np.array_equal(spikes[:, 0].numpy(), PAPER["rockpool_spikes"])


def test_spyx_spikes_one_step_late_and_subtracts_after_the_decay() -> None:
    net = from_nir(
        graph([("i", "n"), ("n", "o")], n=lif(v_threshold=0.5)), dynamics="spyx", dt=1e-4, dtype=torch.float64
    )
    xs = torch.rand(50, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ys, _, recorded = net.run(xs, record=("n:v",))
    v, expected = 0.0, []
    for x in xs[:, 0].tolist():
        z = float(v > 0.5)
        v = (1 - 1e-4 / 5e-4) * v + x - z * 0.5
        expected.append((z, v))
    assert ys[:, 0].tolist() == [z for z, _ in expected]
    np.testing.assert_allclose(recorded["n:v"][:, 0], [v for _, v in expected], atol=1e-12)


def test_spyx_feeds_spikes_back_in_the_step_in_which_they_come_out() -> None:
    made = nir.read(DATA / "braille_noDelay_bias_zero.nir")
    net = from_nir(made, dynamics="spyx", dt=1e-4, dtype=torch.float64)
    xs = torch.from_numpy(PAPER["braille_input"].astype(np.float64))
    _, _, recorded = net.run(xs, record=("lif1.lif",))
    n, w = made.nodes["lif1.lif"], made.nodes["lif1.w_rec"]
    i = v = np.zeros(38)
    raster = []
    for x in xs.numpy():
        z = (v > n.v_threshold).astype(np.float64)
        drive = made.nodes["fc1"].weight @ x + made.nodes["fc1"].bias + w.weight @ z + w.bias
        i = (1 - 1e-4 / n.tau_syn) * i + drive
        v = (1 - 1e-4 / n.tau_mem) * (v - z * n.v_threshold) + i
        raster.append(z)
    assert np.array_equal(recorded["lif1.lif"].numpy(), np.stack(raster))
    stepped = net.run(xs, record=("lif1.lif",), layerwise=False)[2]
    assert torch.equal(stepped["lif1.lif"], recorded["lif1.lif"])


def test_events_count_every_spike_of_a_step() -> None:
    made = graph([("i", "n"), ("n", "o")], n=lif(tau=1e-4, r=1.0, v_threshold=1.0))
    dynamics = Dynamics.preset("exact", multi_spike=True)
    spikes, state = from_nir(made, dynamics=dynamics, dtype=torch.float64)(torch.tensor([5.0], dtype=torch.float64))
    interval = np.log(5 / 4)
    count = int(1 / interval)
    assert spikes.item() == count
    assert state.n.v.item() == pytest.approx(5 * (1 - np.exp(-(1 - count * interval))))


def test_currents_of_the_exact_solution_agree_with_many_small_steps() -> None:
    one = np.ones(1)
    n = nir.CubaLIF(one * 2e-4, one * 1e-3, one * 2, one * 0.1, one * 0.5, one * 0.0, one * 1.5)
    xs = torch.tensor([1.0, 0.0, 2.0, 0.5, 0.0, 0.0], dtype=torch.float64)[:, None]
    exact = from_nir(graph([("i", "n"), ("n", "o")], n=n), dynamics="exact", dtype=torch.float64)
    fine = from_nir(graph([("i", "n"), ("n", "o")], n=n), dt=1e-8, dtype=torch.float64)
    ys, state = exact.run(xs)
    zs, other = fine.run(xs.repeat_interleave(10_000, 0))
    assert ys.sum().item() == zs.sum().item() > 0
    assert state.n.v.item() == pytest.approx(other.n.v.item(), abs=1e-4)
    assert state.n.i.item() == pytest.approx(other.n.i.item(), abs=1e-4)


@pytest.mark.parametrize(("test", "expected"), [(">", 0.0), (">=", 1.0)])
def test_a_potential_on_the_threshold(test: str, expected: float) -> None:
    made = graph([("i", "n"), ("n", "o")], n=nir.IF(np.ones(1), np.ones(1)))
    assert from_nir(made, dynamics=Dynamics(spike_test=test))(torch.ones(1))[0].item() == expected


def test_where_potentials_start() -> None:
    made = graph(
        [("i", "n"), ("n", "m"), ("m", "o")], n=lif(v_leak=-0.5), m=nir.IF(np.ones(1), np.ones(1), -np.ones(1))
    )
    state = from_nir(made, dynamics="spikingjelly").initial_state((2,))
    assert state["n.v"].tolist() == [[-0.5], [-0.5]]
    assert state["m.v"].tolist() == [[-1.0], [-1.0]]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Dynamics(dt=0.0), "dt=0.0"),
        (lambda: Dynamics(reset="hard"), "reset='hard'"),
        (lambda: Dynamics(output_lag=-1), "output_lag=-1"),
        (lambda: Dynamics.preset("nors"), "norse"),
        (lambda: Dynamics.preset("nir", gain=1), "gain"),
    ],
)
def test_what_dynamics_can_not_be(make: Any, named: str) -> None:
    with pytest.raises(DynamicsError, match=named):
        make()
