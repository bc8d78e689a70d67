"""Random inputs and states of a network: small multiples of a power of two."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

from nir_bridge import NIRModule, State
from nir_bridge.plan import Plan

INPUTS = (1.0, 0.0, 2.0, -1.0, 0.5, 3.0, -0.25)
STATES = (0.0, 0.25, -0.5, 1.0, 2.0)


@st.composite
def tensors(draw: st.DrawFn, shape: Sequence[int], values: tuple[float, ...], dtype: torch.dtype) -> Tensor:
    """Tensors of some values; big ones repeat them."""
    size = math.prod(shape)
    drawn = draw(st.lists(st.sampled_from(values), min_size=min(size, 8), max_size=min(size, 8)))
    repeated = [drawn[at % len(drawn)] for at in range(size)] if drawn else []
    return torch.tensor(repeated, dtype=dtype).reshape(tuple(shape))


def states(net: NIRModule, batch_shape: Sequence[int] = ()) -> st.SearchStrategy[State]:
    """Random states of a network; what modules of a node map keep is left for them to start.

    Args:
        net: the network.
        batch_shape: the batch axes.

    Example:
        >>> import nir, numpy as np
        >>> from hypothesis import find
        >>> from nir_bridge import from_nir
        >>> net = from_nir(nir.NIRGraph.from_list(nir.I(np.ones(2))))
        >>> find(states(net), lambda state: state["i.v"].sum() > 0)["i.v"]
        tensor([0.0000, 0.2500])
    """
    start = net.initial_state(batch_shape)
    parts = dict(start.tensors())
    drawn = {path: tensors(value.shape, STATES, value.dtype) for path, value in parts.items()}
    return st.fixed_dictionaries(drawn).map(start.replace)


def series(
    net: NIRModule,
    *,
    steps: int | None = None,
    batch_shape: Sequence[int] = (),
    dtype: torch.dtype | None = None,
) -> st.SearchStrategy[dict[str, Tensor]]:
    """Random inputs of a network, by the names of its Input nodes, time first, as `net.run` takes them.

    Args:
        net: the network; all its inputs have to have known shapes.
        steps: how many; None for 2 to 6.
        batch_shape: the batch axes.
        dtype: of the inputs; None for that of the network.
    """
    plan: Plan = net.__dict__["@nir"]
    lengths = st.integers(2, 6) if steps is None else st.just(steps)
    shapes = {port.name: (*batch_shape, *(port.shape or ())) for port in plan.ports}
    return lengths.flatmap(
        lambda length: st.fixed_dictionaries(
            {name: tensors((length, *shape), INPUTS, dtype or plan.dtype) for name, shape in shapes.items()}
        )
    )
