"""Pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from unflatten.leaves.leaf import Leaf, Operator, Proposal
from unflatten.leaves.registry import register
from unflatten.leaves.tables import Read, Row, each, integral, one_or_all, register_table


def _stride(_: Leaf, found: Operator) -> Any:
    """The stride; the kernel's size where none was written."""
    return one_or_all(found.list("stride")) if found["stride"] else None


_WINDOW: dict[str, Read] = {
    "kernel_size": each("kernel_size"),
    "stride": _stride,
    "padding": each("padding"),
    "ceil_mode": "ceil_mode",
}
_AVERAGE: dict[str, Read] = {**_WINDOW, "count_include_pad": "count_include_pad"}
_OVER: dict[str, Read] = {**_AVERAGE, "divisor_override": "divisor_override"}


def _tuples(name: str) -> Read:
    return lambda _, found: found.list(name)


_ONE: dict[str, Read] = {**_AVERAGE, "kernel_size": _tuples("kernel_size"), "padding": _tuples("padding")}
_ONE["stride"] = lambda _, found: found.list("stride") or None
_SIZE: dict[str, Read] = {"output_size": each("output_size")}

register_table(
    {
        nn.AvgPool1d: Row("avg_pool1d", _ONE),
        nn.AvgPool2d: Row("avg_pool2d", _OVER),
        nn.AvgPool3d: Row("avg_pool3d", _OVER),
        nn.AdaptiveAvgPool1d: Row("adaptive_avg_pool1d", _SIZE),
        nn.AdaptiveAvgPool2d: Row("adaptive_avg_pool2d", _SIZE),
        nn.AdaptiveAvgPool3d: Row("adaptive_avg_pool3d", _SIZE),
    }
)


def _adaptive(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
    if found is not None:
        for both in (len(leaf.outputs) > 1, len(leaf.outputs) < 2):
            yield Proposal({"output_size": one_or_all(found.list("output_size")), "return_indices": both})


def _maximum(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = next((found for found in leaf.operators() if found.name.startswith("max_pool")), None)
    if found is None:
        return
    kwargs = {
        "kernel_size": one_or_all(found.list("kernel_size")),
        "stride": _stride(leaf, found),
        "padding": one_or_all(found.list("padding")),
        "dilation": one_or_all(found.list("dilation")),
        "ceil_mode": found["ceil_mode"],
    }
    yield Proposal({**kwargs, "return_indices": found.name.endswith("_with_indices")})


def _power(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    pool, power = leaf.find("avg_pool1d", "avg_pool2d", "avg_pool3d"), leaf.find("pow")
    if pool is not None and power is not None:
        norm = integral(power["exponent"])
        yield Proposal(
            {
                "norm_type": norm,
                "kernel_size": one_or_all(pool.list("kernel_size")),
                "stride": _stride(leaf, pool),
                "ceil_mode": pool["ceil_mode"],
            }
        )


for _at, (_max, _over, _lp) in enumerate(
    (
        (nn.MaxPool1d, nn.AdaptiveMaxPool1d, nn.LPPool1d),
        (nn.MaxPool2d, nn.AdaptiveMaxPool2d, nn.LPPool2d),
        (nn.MaxPool3d, nn.AdaptiveMaxPool3d, nn.LPPool3d),
    ),
    1,
):
    register(_max, _maximum, [f"max_pool{_at}d", f"max_pool{_at}d_with_indices"])
    register(_over, _adaptive, [f"adaptive_max_pool{_at}d"])
    register(_lp, _power, [f"avg_pool{_at}d"])
