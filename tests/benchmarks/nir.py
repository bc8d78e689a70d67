"""Times NIR networks beside nirtorch, in one process.

    python -m tests.benchmarks.nir

The peer has no neurons; it gets plain ones with what they need computed beforehand. Each figure is the best of several
runs, taken in turns.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nir
import numpy as np
import torch
from torch import nn

from nir_bridge import from_nir

DATA = Path(__file__).parents[1] / "data" / "nir"


class PlainCubaLIF(nn.Module):
    """What a framework would give the peer for a CubaLIF."""

    def __init__(self, node: Any) -> None:
        super().__init__()
        self.decay_i = torch.tensor(1 - 1e-4 / node.tau_syn).float()
        self.gain_i = torch.tensor(1e-4 / node.tau_syn * node.w_in).float()
        self.decay_v = torch.tensor(1 - 1e-4 / node.tau_mem).float()
        self.gain_v = torch.tensor(1e-4 / node.tau_mem * node.r).float()
        self.threshold = torch.tensor(node.v_threshold).float()

    def forward(self, x: Any, state: Any = None) -> Any:
        """One step."""
        i, v = (torch.zeros_like(x), torch.zeros_like(x)) if state is None else state
        i = self.decay_i * i + self.gain_i * x
        v = self.decay_v * v + self.gain_v * i
        z = (v > self.threshold).to(v.dtype)
        return z, (i, v * (1 - z))


class PlainIF(nn.Module):
    """What a framework would give the peer for an IF."""

    def __init__(self, node: Any) -> None:
        super().__init__()
        self.r, self.threshold = torch.tensor(node.r).float(), torch.tensor(node.v_threshold).float()

    def forward(self, x: Any, state: Any = None) -> Any:
        """One step."""
        v = (torch.zeros_like(x) if state is None else state) + self.r * x
        z = torch.floor(v / self.threshold).clamp(min=0)
        return z, v - z * self.threshold


def plain_linear(node: Any) -> nn.Module:
    """The peer's own loses the bias."""
    linear = nn.Linear(node.weight.shape[1], node.weight.shape[0])
    linear.weight.data, linear.bias.data = torch.tensor(node.weight), torch.tensor(node.bias)
    return linear


NODE_MAP = {nir.CubaLIF: PlainCubaLIF, nir.IF: PlainIF, nir.Affine: plain_linear}


def best(functions: list[Callable[[], Any]], repeats: int = 7) -> list[float]:
    """The least time of each function, called in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, own in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            own.append(time.perf_counter() - start)
    return [min(own) for own in times]


def chain(size: int) -> nir.NIRGraph:
    """Linear layers in a row."""
    names = ["i", *(f"l{at}" for at in range(size)), "o"]
    nodes = {name: nir.Linear(np.eye(1, dtype=np.float32)) for name in names[1:-1]}
    ends = {"i": nir.Input(np.array([1])), "o": nir.Output(np.array([1]))}
    return nir.NIRGraph({**ends, **nodes}, list(zip(names, names[1:], strict=False)), type_check=False)  # noqa: RUF007


def stepped(net: Any, xs: torch.Tensor) -> None:
    """A loop over single steps, as the peer's users write it."""
    state = None
    for x in xs:
        _, state = net(x) if state is None else net(x, state)


def series(name: str, graph: nir.NIRGraph, xs: torch.Tensor, peer: Any, **options: Any) -> None:
    """Steps and series of one network."""
    net, compiled = from_nir(graph, **options), from_nir(graph, **options)
    start = time.perf_counter()
    compiled.compile()
    compiled.run(xs)
    seconds = time.perf_counter() - start
    theirs, steps, run, fast = best(
        [lambda: stepped(peer, xs), lambda: stepped(net, xs), lambda: net.run(xs), lambda: compiled.run(xs)]
    )
    print(f"{name}: peer's steps {theirs * 1e3:.1f} ms; ours {steps * 1e3:.1f} ms ({theirs / steps:.2f} x), ", end="")
    print(
        f"run {run * 1e3:.1f} ms ({theirs / run:.1f} x), compiled {fast * 1e3:.1f} ms ({theirs / fast:.1f} x), ", end=""
    )
    print(f"compiling {seconds:.0f} s", flush=True)


def main() -> None:
    """Prints the figures."""
    import nirtorch  # type: ignore[import-not-found,import-untyped,unused-ignore] # not among the project's dependencies

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for size in (100, 1000, 10_000):
        graph = chain(size)
        print(f"import of {size} nodes: {best([lambda graph=graph: from_nir(graph)], 3)[0]:.3f} s", flush=True)  # type: ignore[misc]
    peer_graph = chain(1000)
    print(f"import of 1000 nodes by the peer: {best([lambda: nirtorch.nir_to_torch(peer_graph, {})], 1)[0]:.1f} s")
    with torch.no_grad():
        graph = nir.read(DATA / "braille_noDelay_bias_zero.nir")
        xs = torch.from_numpy(np.load(DATA / "paper.npz")["braille_input"].astype(np.float32))
        series("Braille, 256 steps", graph, xs, nirtorch.nir_to_torch(graph, NODE_MAP))
        graph = nir.read(DATA / "sinabs_conv_iaf_single.nir")
        frames = (torch.rand(100, 1, 2, 12, 12) < 0.3).float()
        peer = nirtorch.nir_to_torch(nir.read(DATA / "sinabs_conv_iaf_single.nir"), NODE_MAP)
        series("small CNN, 100 steps", graph, frames, peer, dynamics="sinabs")


if __name__ == "__main__":
    main()
