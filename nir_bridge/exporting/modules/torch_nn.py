"""What modules of `torch.nn` mean in NIR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import nir
import numpy as np
from torch import nn

from nir_bridge.errors import NoMeaningError
from nir_bridge.exporting.functions.layers import normalised, pair, pool_problem, pool_recipe
from nir_bridge.exporting.functions.shaping import flatten_node
from nir_bridge.exporting.recipes import Array, Built, ConvRecipe, LinearRecipe, Recipe, Site, array
from nir_bridge.fields import Shape

Taken = tuple["int | None", ...]
"""A batch-less shape, as far as a module tells."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a module means.

    Attributes:
        make: its node; None where it is left out.
        meaning: in words.
        takes: the shape that goes in, as far as the module tells it.
    """

    make: Callable[[Any, int], Recipe] | None
    meaning: str
    takes: Callable[[Any], Taken | None] = lambda _: None


def _optional(tensor: Any) -> Array | None:
    return None if tensor is None else array(tensor)


def _linear(module: nn.Linear, _: int) -> Recipe:
    return LinearRecipe(array(module.weight), _optional(module.bias))


def _conv(module: nn.Conv1d | nn.Conv2d, _: int) -> Recipe:
    if module.padding_mode != "zeros":
        raise NoMeaningError(
            f"padding_mode={module.padding_mode!r} has no meaning in NIR, which pads with zeros; pad the input yourself"
        )
    padding: Any = module.padding
    settings = (module.stride, padding, module.dilation, module.groups)
    return ConvRecipe(array(module.weight), _optional(module.bias), *settings)


def _avg_pool(module: nn.AvgPool2d, _: int) -> Recipe:
    problem = pool_problem(module.ceil_mode, module.count_include_pad, module.padding)
    divisor = module.divisor_override
    if problem or divisor not in (None, 1, int(np.prod(pair(module.kernel_size)))):
        raise NoMeaningError(problem or "divisor_override has to be 1 or the size of the window")
    kind = nir.SumPool2d if divisor == 1 else nir.AvgPool2d
    return pool_recipe(kind, module.kernel_size, module.stride, module.padding)


def _lp_pool(module: nn.LPPool2d, _: int) -> Recipe:
    if float(module.norm_type) != 1:
        raise NoMeaningError(f"norm_type={module.norm_type} has no meaning in NIR; only 1, a sum, has: SumPool2d")
    if module.ceil_mode:
        raise NoMeaningError("ceil_mode=True has no meaning in NIR; pad the input, or round down")
    return pool_recipe(nir.SumPool2d, module.kernel_size, module.stride, 0)


def _flatten(module: nn.Flatten, batch_dims: int) -> Recipe:
    start, end = int(module.start_dim), int(module.end_dim)

    def build(site: Site) -> nir.NIRNode:
        shape = site.takes
        first = start if shape is None or start >= 0 else start + len(shape) + batch_dims
        last = end if shape is None or end >= 0 else end + len(shape) + batch_dims
        if 0 <= first < batch_dims:
            raise NoMeaningError(
                f"{site.where}: start_dim={start} joins batch axes, of which there are {batch_dims}; NIR has no batch. "
                f"Start at {batch_dims}"
            )
        first = first - batch_dims if first >= 0 else first
        if shape is not None and last == len(shape) + batch_dims - 1:
            return flatten_node(first, -1, site)
        return flatten_node(first, last - batch_dims if last >= 0 else last, site)

    return Built(build)


def _check_norm(module: Any, batch_dims: int) -> None:
    if module.training or module.running_mean is None:
        raise NoMeaningError(
            "it normalises with the statistics of the batch, which has no meaning in NIR; call model.eval() before "
            "to_nir, or leave it out: to_nir(model, bypass=(torch.nn.BatchNorm1d,))"
        )
    if batch_dims != 1:
        raise NoMeaningError("it takes exactly one batch axis; say batch_dims=1")


def _norm(module: Any, shape: Shape | None) -> Any:
    rank = 1 if shape is None else len(shape)
    return normalised(module.running_mean, module.running_var, module.weight, module.bias, module.eps, rank)


@dataclass(frozen=True, slots=True)
class NormRecipe(Recipe):
    """A normalisation whose statistics are fixed."""

    module: Any

    def constants(self, shape: Shape | None) -> Any:
        """Factors and offsets, for a signal of a shape."""
        return _norm(self.module, shape)

    def node(self, site: Site) -> nir.NIRNode:
        """A node of its own."""
        found: nir.NIRNode = self.constants(site.takes).node(site)
        return found


def _norm_entry(kind: str) -> Entry:
    def make(module: Any, batch_dims: int) -> Recipe:
        _check_norm(module, batch_dims)
        return NormRecipe(module)

    return Entry(make, f"folded into the {kind} before, or a node of its own; in evaluation mode")


def _bilinear(_module: nn.Bilinear, _: int) -> Recipe:
    raise NoMeaningError("a product of two signals has no meaning in NIR; map it, or leave it out")


def _recurrent(module: Any, _: int) -> Recipe:
    kind = type(module).__name__
    raise NoMeaningError(
        f"{kind} squashes its values (tanh, sigmoid), for which NIR has no node. Say which graph stands for it: "
        f"to_nir(model, {{torch.nn.{kind}: lambda module: nir.NIRGraph(...)}})"
    )


_OUT = Entry(None, "left out, in training too")
_NO_RNN = Entry(_recurrent, "an error: NIR has no tanh or sigmoid; map it to a graph")

TORCH: Final[Mapping[type[nn.Module], Entry]] = {
    nn.Linear: Entry(_linear, "Affine, or Linear without a bias", lambda module: (module.weight.shape[1],)),
    nn.Conv1d: Entry(
        _conv, "Conv1d; without a bias, one of zeros", lambda module: (module.weight.shape[1] * module.groups, None)
    ),
    nn.Conv2d: Entry(
        _conv,
        "Conv2d; without a bias, one of zeros",
        lambda module: (module.weight.shape[1] * module.groups, None, None),
    ),
    nn.AvgPool2d: Entry(_avg_pool, "AvgPool2d; SumPool2d with divisor_override=1"),
    nn.LPPool2d: Entry(_lp_pool, "SumPool2d, with norm_type=1"),
    nn.Flatten: Entry(_flatten, "Flatten; batch axes have to be left alone"),
    nn.BatchNorm1d: _norm_entry("Affine or convolution"),
    nn.BatchNorm2d: _norm_entry("convolution"),
    nn.Identity: Entry(None, "left out"),
    nn.Dropout: _OUT,
    nn.Dropout1d: _OUT,
    nn.Dropout2d: _OUT,
    nn.Dropout3d: _OUT,
    nn.AlphaDropout: _OUT,
    nn.FeatureAlphaDropout: _OUT,
    nn.Bilinear: Entry(_bilinear, "an error: NIR has no products of signals"),
    nn.RNN: _NO_RNN,
    nn.LSTM: _NO_RNN,
    nn.GRU: _NO_RNN,
    nn.RNNCell: _NO_RNN,
    nn.LSTMCell: _NO_RNN,
    nn.GRUCell: _NO_RNN,
}
