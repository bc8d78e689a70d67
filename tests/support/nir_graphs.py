"""Small NIR graphs."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np

Edges = list[tuple[str, str]]


def source(*shape: int) -> nir.Input:
    """An Input."""
    return nir.Input(np.array(shape))


def sink(*shape: int) -> nir.Output:
    """An Output."""
    return nir.Output(np.array(shape))


def gain(factor: float, size: int = 1) -> nir.Linear:
    """A weight that multiplies."""
    return nir.Linear(np.eye(size, dtype=np.float32) * np.float32(factor))


def shifted(factor: float, bias: float) -> nir.Affine:
    """A weight that multiplies, and a bias."""
    return nir.Affine(np.eye(1, dtype=np.float32) * np.float32(factor), np.array([bias], np.float32))


def lif(size: int = 1, **fields: Any) -> nir.LIF:
    """A neuron that takes five steps of 1e-4 s to forget, and adds its input."""
    one = np.ones(size)
    values = {"tau": 5e-4, "r": 5.0, "v_leak": 0.0, "v_threshold": 1.0, "v_reset": 0.0, **fields}
    return nir.LIF(**{name: one * value for name, value in values.items()})


def graph(edges: Edges, **nodes: nir.NIRNode) -> nir.NIRGraph:
    """A graph with an Input `i` and an Output `o` of one value; in names two underscores stand for a dot."""
    named = {name.replace("__", "."): node for name, node in nodes.items()}
    return nir.NIRGraph({"i": source(1), **named, "o": sink(1)}, edges, type_check=False)
