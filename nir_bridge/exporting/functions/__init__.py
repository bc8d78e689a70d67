"""What functions of torch mean in NIR, a family a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nir_bridge.errors import NoMeaningError
from nir_bridge.exporting.calls import Rule
from nir_bridge.exporting.functions.comparing import COMPARING
from nir_bridge.exporting.functions.layers import LAYERS
from nir_bridge.exporting.functions.passing import PASSING
from nir_bridge.exporting.functions.scaling import SCALING
from nir_bridge.exporting.functions.shaping import SHAPING
from nir_bridge.exporting.functions.slicing import SLICING
from nir_bridge.exporting.functions.sums import SUMS

FUNCTIONS: Final[Mapping[str, Rule]] = {
    **SUMS,
    **SCALING,
    **PASSING,
    **SHAPING,
    **LAYERS,
    **COMPARING,
    **SLICING,
}
"""By name, the same for `torch`, `torch.nn.functional` and methods of tensors; properties have a dot in front."""

_READS_VALUES = frozenset(
    {"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "numpy", "__array__", "__contains__", "equal",
     "allclose", "nonzero", "argwhere", "is_nonzero"}
)  # fmt: skip


RANDOM: Final = frozenset(
    {"rand", "randn", "randint", "randperm", "normal", "normal_", "uniform_", "bernoulli", "bernoulli_", "random_",
     "exponential_", "cauchy_", "log_normal_", "geometric_", "poisson", "multinomial", "rand_like", "randn_like",
     "randint_like", "dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout",
     "feature_alpha_dropout", "native_dropout", "rrelu", "gumbel_softmax", "trunc_normal_", "binomial"}
)  # fmt: skip
"""The functions whose results are drawn at random."""


def called_name(func: Any) -> str:
    """The name under which a function is looked up."""
    name = str(getattr(func, "__name__", func))
    if name in ("__get__", "__set__"):
        held = getattr(getattr(func, "__self__", None), "__name__", "?")
        return f".{held}" if name == "__get__" else f".{held}="
    return name.split(".", maxsplit=1)[0]


def unsupported(name: str, where: str, path: str, kind: str) -> NoMeaningError:
    """The error for a function that has no meaning in NIR.

    Args:
        name: of the function.
        where: the module that calls it, as messages name it.
        path: of the module; empty for the model itself.
        kind: the name of its class.
    """
    shown = f"the property {name}" if name.startswith(".") else f"torch function {name!r}"
    if name in _READS_VALUES:
        return NoMeaningError(
            f"{where}: {shown} reads the values of a signal. A NIR graph is the same for all values; make the model's "
            "forward not depend on them, or map its module: to_nir(model, {type: mapper})"
        )
    if not path:
        fix = "Put it into a module of its own, and map that to a node: to_nir(model, {ItsClass: lambda module: ...})"
    else:
        fix = (
            f"Map the module to a node, to_nir(model, {{{kind}: lambda module: nir.Threshold(...)}}), or leave it out: "
            f"to_nir(model, bypass=({path!r},))"
        )
    return NoMeaningError(f"{where}: {shown} has no meaning in NIR. {fix}")
