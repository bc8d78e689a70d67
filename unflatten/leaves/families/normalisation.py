"""Normalisation over layers, groups, batches, instances and neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from unflatten.leaves.leaf import Leaf, Operator, Proposal
from unflatten.leaves.registry import register
from unflatten.leaves.tables import Row, has, register_table, whole


def _channels(leaf: Leaf, found: Operator, at: int = 1) -> Any:
    for name in ("weight", "running_mean"):
        if name in leaf.state:
            return leaf.state[name].shape[0]
    shape = leaf.shape(found["input"])
    return shape[at] if len(shape) > at else 0


register_table(
    {
        nn.LayerNorm: Row(
            "layer_norm",
            {
                "normalized_shape": whole("normalized_shape"),
                "eps": "eps",
                "elementwise_affine": has("weight"),
                "bias": lambda leaf, _: "bias" in leaf.state or "weight" not in leaf.state,
            },
        ),
        nn.RMSNorm: Row(
            "rms_norm",
            {"normalized_shape": whole("normalized_shape"), "eps": "eps", "elementwise_affine": has("weight")},
        ),
    }
)


def _bias(leaf: Leaf) -> dict[str, bool]:
    """An argument that torch has since 2.13, where it matters."""
    return {"bias": False} if "weight" in leaf.state and "bias" not in leaf.state else {}


def _group_norm(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("group_norm")
    if found is not None:
        sizes = {"num_groups": found["num_groups"], "num_channels": _channels(leaf, found)}
        yield Proposal({**sizes, "eps": found["eps"], "affine": "weight" in leaf.state, **_bias(leaf)})


register(nn.GroupNorm, _group_norm, ["group_norm"])


def _batch_norm(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    found = leaf.find("batch_norm", "instance_norm")
    if found is None:
        return
    kwargs = {
        "num_features": _channels(leaf, found),
        "eps": found["eps"],
        "affine": "weight" in leaf.state,
        "track_running_stats": "running_mean" in leaf.state,
        **_bias(leaf),
    }
    if found["momentum"] == 0.0:  # what is passed if there is none
        yield Proposal({**kwargs, "momentum": None})
    yield Proposal({**kwargs, "momentum": found["momentum"]})


_NORMS: dict[str, tuple[type[nn.Module], ...]] = {
    "batch_norm": (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d),
    "instance_norm": (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
}

for _name, _classes in _NORMS.items():
    for _class in _classes:
        register(_class, _batch_norm, [_name])


def _local_response(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    pool, power = leaf.find("avg_pool2d", "avg_pool3d"), leaf.find("pow")
    if pool is None or power is None:
        return
    scale = next((found for found in leaf.operators() if found.name == "mul" and not leaf.shape(found["other"])), None)
    shift = leaf.find("add")
    if scale is not None and shift is not None:
        yield Proposal(
            {
                "size": pool.list("kernel_size")[0],
                "alpha": scale["other"],
                "beta": power["exponent"],
                "k": shift["other"],
            }
        )


register(nn.LocalResponseNorm, _local_response, ["avg_pool2d", "avg_pool3d"])
