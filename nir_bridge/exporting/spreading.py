"""Nodes of neurons whose constants are single numbers, or one a channel: spread to the shape of the signal."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import Any

import nir
import numpy as np

from nir_bridge.errors import ShapeError
from nir_bridge.exporting.copying import placed
from nir_bridge.exporting.recipes import Recipe, Site
from nir_bridge.fields import Shape
from nir_bridge.wiring import NEURONS


@dataclass(frozen=True, slots=True)
class Spread(Recipe):
    """A node, or a graph of a recurrent neuron, whose shapes are left to the signal."""

    given: nir.NIRNode

    def node(self, site: Site) -> nir.NIRNode:
        """The node with the shapes of its site; as it is where they are not known.

        Raises:
            ShapeError: the constants don't fit the signal.
        """
        if site.takes is None or site.gives is None:
            return self.given
        if not isinstance(self.given, nir.NIRGraph):
            return _spread(copy.copy(self.given), site.takes, site)
        nodes: dict[str, nir.NIRNode] = {}
        for name, inner in self.given.nodes.items():
            takes = site.takes if name in {"input", "w_in"} else site.gives
            nodes[name] = placed(_spread(copy.copy(inner), takes, site), takes, site.gives)
        return nir.NIRGraph(nodes, list(self.given.edges), type_check=False)


def _spread(node: nir.NIRNode, shape: Shape, site: Site) -> nir.NIRNode:
    if not isinstance(node, (*NEURONS, nir.Scale)):
        return node
    for item in fields(node):
        value: Any = getattr(node, item.name, None)
        if isinstance(value, np.ndarray) and item.name not in {"input_type", "output_type", "metadata"}:
            try:
                setattr(node, item.name, np.array(np.broadcast_to(value, shape)))
            except ValueError:
                raise ShapeError(
                    f"{site.where}: {item.name} of shape {value.shape} does not fit its batch-less input {shape}; "
                    "batch_dims says how many leading axes of the inputs are batch axes"
                ) from None
    node.__post_init__()
    return node
