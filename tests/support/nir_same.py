"""Whether two NIR graphs are the same, but for the order of nodes and edges."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np


def assert_same(one: nir.NIRNode, other: nir.NIRNode, where: str = "") -> None:
    """Compares nodes, edges, fields and shapes, all the way down."""
    assert type(one) is type(other), where
    if isinstance(one, nir.NIRGraph):
        assert sorted(one.nodes) == sorted(other.nodes), where
        assert sorted(one.edges) == sorted(other.edges), where
        for name, node in one.nodes.items():
            assert_same(node, other.nodes[name], f"{where}.{name}")
    for name, value in vars(one).items():
        if name not in ("nodes", "edges"):
            assert_equal(value, getattr(other, name), f"{where}.{name}")


def assert_equal(one: Any, other: Any, where: str) -> None:
    """Compares two fields."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key, value in one.items():
            assert_equal(value, other[key], f"{where}.{key}")
    elif one is None or isinstance(one, str):
        assert one == other, where
    elif np.asarray(one).dtype.kind in "fiub":
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6, err_msg=where)
    else:
        assert list(one) == list(other), where
