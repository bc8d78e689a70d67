"""Whether a graph's shapes fit together, as `from_nir` would find out."""

from __future__ import annotations

import nir
import torch

from nir_bridge.fields import Fields, Target, declared_shape
from nir_bridge.flattening import flatten
from nir_bridge.making import make_modules, primitive_of
from nir_bridge.node_map import NodeMap
from nir_bridge.setting import Setting
from nir_bridge.surrogate import as_slope
from nir_bridge.wiring import delayed_edges


def verify(graph: nir.NIRGraph, setting: Setting) -> None:
    """Checks a graph, as far as its shapes are known.

    Raises:
        NIRBridgeError: shapes don't fit together, or a field can't be used.
    """
    flat = flatten(graph, lambda *_: None)
    for number in flat.scopes[()].inputs:
        if declared_shape(Fields(flat.nodes[number].label, flat.nodes[number].node), "input") is None:
            return
    if not all(node.is_junction or primitive_of(node.node) for node in flat.nodes):
        return
    target = Target(torch.device("meta"), torch.float32, setting.dynamics, as_slope("fast_sigmoid"), False)
    make_modules(flat, delayed_edges(flat, setting.dynamics.feedback), NodeMap(), target)
