"""Networks as torch modules: states, series, names, copies, compiling, exporting."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
import torch
from torch import nn

import unflatten
from nir_bridge import NIRModule, State, from_nir
from nir_bridge.errors import CallError, RecordError, ShapeError, StateError
from tests.support.nir_graphs import gain, graph, lif, shifted, sink, source

DATA = Path(__file__).parents[2] / "data" / "nir"
BRAILLE = DATA / "braille_noDelay_bias_zero.nir"
XS = torch.from_numpy(np.load(DATA / "paper.npz")["braille_input"].astype(np.float32))


def braille(**options: Any) -> Any:
    return from_nir(BRAILLE, **options)


def test_what_two_cycles_keep_of_one_module_is_replaced_in_both() -> None:
    inner = graph([("i", "s"), ("s", "o"), ("o", "i")], s=gain(0.5))
    net = from_nir(graph([("i", "g"), ("g", "o"), ("g", "g")], g=inner))
    xs = torch.ones(4, 1)
    ys, _ = net.run(xs)
    _, half = net.run(xs[:2])
    restored = net.initial_state().replace(dict(half.tensors()))  # what is in a file
    for layerwise in (True, False):
        assert torch.equal(net.run(xs[2:], restored, layerwise=layerwise)[0], ys[2:])


def test_code_is_readable() -> None:
    net = braille()
    assert net.code == (
        "def forward(self, x, state=None):\n"
        "    lif1, state_lif1 = self.lif1(self.fc1(x), state['lif1'])\n"
        "    lif2, state_lif2 = self.lif2(self.fc2(lif1), state['lif2'])\n"
        "    return lif2, State(lif1=state_lif1, lif2=state_lif2)"
    )
    assert isinstance(net.lif1, NIRModule)
    assert net.delayed_edges == net.lif1.delayed_edges == (("lif1.lif", "lif1.w_rec"),)


def test_a_state_can_be_used_twice_and_is_never_changed() -> None:
    net = braille()
    _, state = net(XS[0])
    values = {path: value.clone() for path, value in state.tensors()}
    first, second = net(XS[1], state), net(XS[1], state)
    assert torch.equal(first[1].lif2.v, second[1].lif2.v)
    assert all(torch.equal(value, values[path]) for path, value in state.tensors())
    with pytest.raises(AttributeError, match="can't be changed"):
        state.lif2 = None


def test_states_are_saved_moved_detached_and_indexed(tmp_path: Path) -> None:
    net = braille()
    _, state = net.run(XS[:5])
    assert state["lif1.lif.v"] is state.lif1.lif.v
    assert state["lif1"]["lif.out"].shape == (38,)
    assert state.lif2.v.requires_grad
    assert not state.detach().lif2.v.requires_grad
    assert state.to(torch.float64)["lif2.v"].dtype == torch.float64
    torch.save(state.detach(), tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=False)
    assert torch.equal(net(XS[5], loaded)[1].lif2.v, net(XS[5], state)[1].lif2.v)
    changed = state.replace({"lif2.v": torch.zeros(7)})
    assert changed.lif2.v.sum() == 0
    assert changed.lif1.lif.v is state.lif1.lif.v
    with pytest.raises(StateError, match=r"lif3\.v"):
        state.replace({"lif3.v": torch.zeros(7)})


@pytest.mark.parametrize(
    ("state", "named"),
    [
        (State(), "lif1 is missing"),
        (State(lif1=State(), lif2=State()), "lif2 has to have the parts i, v"),
        (3, "int"),
    ],
)
def test_states_that_do_not_fit(state: Any, named: str) -> None:
    with pytest.raises(StateError, match=named):
        braille()(XS[0], state=state)


def test_a_state_of_another_batch() -> None:
    net = braille()
    with pytest.raises(StateError, match=r"lif2\.v has shape \(3, 7\), not \(2, 7\)"):
        net(XS[:2], net.initial_state((3,)))


def test_calls_that_do_not_fit() -> None:
    net = braille()
    with pytest.raises(ShapeError, match=r"'input'.*\(12,\)"):
        net(torch.ones(11))
    with pytest.raises(CallError, match="'input' is missing"):
        net()
    with pytest.raises(CallError, match="at least one step"):
        net.run(XS[:0])


@pytest.mark.parametrize("layerwise", [True, False])
def test_series_equal_steps_and_can_be_cut(layerwise: bool) -> None:
    net = braille()
    ys, state = net.run(XS, layerwise=layerwise)
    first, middle = net.run(XS[:100], layerwise=layerwise)
    last, end = net.run(XS[100:], middle, layerwise=layerwise)
    assert torch.equal(torch.cat([first, last]), ys)
    torch.testing.assert_close(end["lif1.lif.v"], state["lif1.lif.v"])
    batch = torch.stack([XS, XS.flip(0)], 1)
    assert torch.equal(net.run(batch.movedim(0, 1), time_dim=1, layerwise=layerwise)[0][0], ys)


@pytest.mark.parametrize("layerwise", [True, False])
def test_records(layerwise: bool) -> None:
    net = braille()
    names = ("lif1.lif", "lif1.lif:v", "lif2:i", "fc1", "output")
    ys, state, recorded = net.run(XS, record=names, layerwise=layerwise)
    assert tuple(recorded) == names
    assert torch.equal(recorded["output"], ys)
    assert torch.equal(recorded["lif1.lif:v"][-1], state["lif1.lif.v"])
    torch.testing.assert_close(recorded["fc1"], net.fc1(XS))
    for name in ("lif3", "lif2:w", "fc1:v"):
        with pytest.raises(RecordError, match=name):
            net.run(XS, record=(name,), layerwise=layerwise)


def test_hooks_fire_in_series() -> None:
    net = braille()
    seen: list[Any] = []
    net.lif2.register_forward_hook(lambda *_: seen.append(1))
    net.run(XS[:3])
    assert len(seen) == 3


def test_copies() -> None:
    net = braille()
    ys, _ = net.run(XS)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(other.run(XS)[0], ys)
        other.load_state_dict(net.state_dict())
        assert other.fc1.weight is not net.fc1.weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_types(dtype: torch.dtype) -> None:
    for net in (braille(dtype=dtype), braille().to(dtype)):
        ys, state = net.run(XS[:4].to(dtype))
        assert ys.dtype == state.lif2.v.dtype == state["lif1"]["lif.out"].dtype == dtype


def test_meta_device() -> None:
    ys, state = braille(device="meta").run(XS.to("meta"))
    assert ys.is_meta
    assert state.lif2.v.is_meta


def test_gradients_through_time() -> None:
    net = braille()
    ys, state = net.run(XS[:40])
    ys.sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    assert net.lif1.w_rec.weight.grad.abs().sum() > 0
    net.run(XS[40:80], state.detach())[0].sum().backward()


def test_torch_func() -> None:
    net = braille()
    parameters, buffers = dict(net.named_parameters()), dict(net.named_buffers())

    def loss(values: Any, x: torch.Tensor) -> Any:
        return torch.func.functional_call(net, (values, buffers), (x,))[1].lif2.v.sum()

    singles = [torch.func.grad(loss)(parameters, x)["fc1.weight"] for x in XS[3:6]]
    together = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, XS[3:6])["fc1.weight"]
    torch.testing.assert_close(together, torch.stack(singles))
    assert torch.equal(net(XS[3])[1].lif2.v, net(XS[3])[1].lif2.v)


def test_steps_compile_whole() -> None:
    net = braille()
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    _, state = compiled(XS[0])
    y, state = compiled(XS[3], state)
    expected, expected_state = net(XS[3], net(XS[0])[1])
    assert torch.equal(y, expected)
    assert torch.equal(state["lif1.lif.v"], expected_state["lif1.lif.v"])


def test_runs_compile() -> None:
    net = braille()
    ys, state = net.run(XS[:40])
    net.compile(backend="eager")
    again, other = net.run(XS[:40])
    assert torch.equal(again, ys)
    assert torch.equal(other.lif2.v, state.lif2.v)
    assert torch.equal(copy.deepcopy(net).run(XS[:40])[0], ys)


def test_compiled_runs_record() -> None:
    net = braille()
    names = ("lif1.lif", "lif1.lif:v")
    expected = net.run(XS[:40], record=names)[2]
    net.compile(backend="eager")
    recorded = net.run(XS[:40], record=names)[2]
    assert all(torch.equal(recorded[name], expected[name]) for name in names)
    assert torch.equal(net(XS[0])[1].lif2.v, braille()(XS[0])[1].lif2.v)


def counted(module: Any, calls: list[str]) -> None:
    """Compiles a network by a compiler that notes when it is asked and when its code runs."""

    def compiler(made: torch.fx.GraphModule, _inputs: Any) -> Any:
        calls.append("compiled")

        def run(*args: Any) -> Any:
            calls.append("run")
            return made(*args)

        return run

    module.compile(backend=compiler)


def test_any_number_of_networks_compiles() -> None:
    limit = torch._dynamo.config.recompile_limit
    for _ in range(limit + 2):
        net, calls = braille(), list[str]()
        counted(net, calls)
        with torch.no_grad():
            expected = braille().run(XS[:48])[0]
            assert torch.equal(net.run(XS[:48])[0], expected)
        assert calls.count("run") == 2


def test_other_lengths_and_batches_need_few_compilations() -> None:
    net, plain, calls = braille(), braille(), list[str]()
    counted(net, calls)
    with torch.no_grad():
        net.run(XS[:10])
        assert calls == []  # too short
        for length, runs in ((40, 2), (20, 1), (41, 2), (19, 0), (256, 12)):
            calls.clear()
            assert torch.equal(net.run(XS[:length])[0], plain.run(XS[:length])[0])
            assert calls.count("run") == runs, length
        assert "compiled" not in calls
        calls.clear()
        for size in (2, 5, 7, 9):
            batch = XS[:20, None].expand(20, size, 12)
            assert torch.equal(net.run(batch)[0], plain.run(batch)[0])
        assert calls.count("compiled") <= 2
        assert calls.count("run") == 4


def test_training_after_inference_mode() -> None:
    net = braille()
    with torch.inference_mode():
        expected = net.run(XS[:20])[0].tolist()
    ys, _ = net.run(XS[:20])
    ys.sum().backward()
    assert ys.tolist() == expected


def test_short_time_constants_in_half_precision() -> None:
    net = from_nir(graph([("i", "n"), ("n", "o")], n=lif(tau=1.5e-5, r=0.1)), dt=1e-5, dtype=torch.float16)
    _, state = net.run(torch.ones(5, 1, dtype=torch.float16))
    assert state.n.v.isfinite().all()


@pytest.mark.parametrize("seed", ["0", "1"])
def test_hash_seeds_change_nothing(seed: str) -> None:
    code = (
        "import torch; from nir_bridge import from_nir\n"
        f"net = from_nir({str(BRAILLE)!r}, dynamics='norse')\n"
        "print(net.print_readable(), net.delayed_edges, list(net.state_dict()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    net = braille(dynamics="norse")
    assert done.stdout.strip() == f"{net.print_readable()} {net.delayed_edges} {list(net.state_dict())}"


def test_steps_are_exported_and_unflattened_again() -> None:
    net = braille()
    _, state = net(XS[0])
    program = torch.export.export(net, (XS[0], state))
    nested = unflatten.unflatten(program)
    assert [name for name, _ in nested.named_modules()] == [name for name, _ in net.named_modules()]
    y, after = nested(XS[3], state)
    expected, expected_after = net(XS[3], state)
    assert torch.equal(y, expected)
    assert torch.equal(after["lif1.lif.v"], expected_after["lif1.lif.v"])


def test_swapping() -> None:
    net = braille()
    ys, _ = net.run(XS)
    before = unflatten.swap(net, "lif2", from_nir(BRAILLE).lif2)
    assert isinstance(before, nn.Module)
    assert torch.equal(net.run(XS)[0], ys)


NAMES = [
    "type", "update", "forward", "run", "state", "self", "x", "code", "compile", "for", "None", "1", "a b", "a'b",
    'a"b', "ﬁ", "é", "a\nb", "); raise SystemExit #", "__class__", "training",
    "a%2Eb", "a..b", ".a", "a.", "State", "torch",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_name(name: str, tmp_path: Path) -> None:
    nodes = {"i": source(1), name: lif(), f"{name}_": gain(2), "o": sink(1)}
    made = nir.NIRGraph(
        nodes, [("i", name), (name, f"{name}_"), (f"{name}_", name), (f"{name}_", "o")], type_check=False
    )
    net = from_nir(made)
    assert net(torch.ones(1))[0].item() == 0.0
    assert net.run(torch.full((2, 1), 2.0))[0][:, 0].tolist() == [2.0, 2.0]
    assert {name, f"{name}_"} <= set(net.original_names.values())
    assert torch.equal(
        pickle.loads(pickle.dumps(net)).run(torch.full((2, 1), 2.0))[0], net.run(torch.full((2, 1), 2.0))[0]
    )
    nir.write(tmp_path / "graph.nir", made)
    assert from_nir(tmp_path / "graph.nir").print_readable() == net.print_readable()


def test_numbered_nodes_are_in_the_order_of_their_numbers() -> None:
    names = [str(at) for at in range(12)]
    made = nir.NIRGraph(
        {"i": source(1), **{name: gain(1) for name in names}, "o": sink(1)},
        [*zip(["i", *names], [*names, "o"], strict=True)],
    )
    assert [name for name, _ in from_nir(made).named_children()] == names


def test_a_slash_in_a_name_survives_a_file(tmp_path: Path) -> None:
    made = nir.NIRGraph({"i": source(1), "a/b": gain(3), "o": sink(1)}, [("i", "a/b"), ("a/b", "o")])
    nir.write(tmp_path / "graph.nir", made)
    assert from_nir(tmp_path / "graph.nir")(torch.ones(1))[0].item() == 3.0


def test_names_that_look_alike_stay_apart() -> None:
    made = nir.NIRGraph(
        {"i": source(1), "a": gain(1), "a.b": gain(2), "a_b": gain(4), "a%2Eb": gain(8), "o": sink(1)},
        [edge for name in ("a", "a.b", "a_b", "a%2Eb") for edge in (("i", name), (name, "o"))],
        type_check=False,
    )
    net = from_nir(made)
    assert net(torch.ones(1))[0].item() == 15.0
    assert sorted(net.original_names.values()) == ["a", "a%2Eb", "a.b", "a_b", "i", "o"]


def test_several_batch_axes_through_images() -> None:
    net = from_nir(DATA / "snntorch_conv.nir")
    xs = (torch.rand(3, 2, 2, 2, 12, 12) < 0.3).float()
    ys, state = net.run(xs)
    assert ys.shape == (3, 2, 2, 5)
    assert state["1.v"].shape == (2, 2, 4, 12, 12)
    assert torch.equal(net.run(xs, layerwise=False)[0], ys)
    assert torch.equal(net.run(xs.flatten(1, 2))[0].reshape(ys.shape), ys)


def test_bias_is_not_lost() -> None:
    assert from_nir(graph([("i", "a"), ("a", "o")], a=shifted(2, 5)))(torch.zeros(1))[0].item() == 5.0
