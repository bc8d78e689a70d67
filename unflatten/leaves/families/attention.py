"""Multi-head attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from unflatten.flat.values import FlatInput
from unflatten.leaves.leaf import Leaf, Proposal
from unflatten.leaves.registry import register


def _attention(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    if "out_proj.weight" not in leaf.state:
        return
    size = leaf.state["out_proj.weight"].shape[0]
    width = next((view.list("size")[-1] for view in leaf.operators() if _splits_heads(view)), 0)
    if not isinstance(width, int) or not width or size % width:
        return
    dropped = _dropout(leaf)
    kwargs = {
        "embed_dim": size,
        "num_heads": size // width,
        "dropout": dropped,
        "bias": "in_proj_bias" in leaf.state,
        "add_bias_kv": "bias_k" in leaf.state,
        "add_zero_attn": leaf.find("zeros") is not None,
        **{
            name: leaf.state[f"{name[0]}_proj_weight"].shape[1]
            for name in ("kdim", "vdim")
            if f"{name[0]}_proj_weight" in leaf.state
        },
    }
    args = _projected(leaf)
    for batch_first in _orders(leaf):
        for call in _calls(leaf, args):
            yield Proposal({**kwargs, "batch_first": batch_first}, args, call, True if dropped else None)


def _splits_heads(view: Any) -> bool:
    return view.name == "view" and len(view.list("size")) == 3


def _dropout(leaf: Leaf) -> float:
    found = leaf.find("scaled_dot_product_attention")
    if found is not None:
        return float(found["dropout_p"])
    found = leaf.find("dropout")
    return float(found["p"]) if found is not None else 0.0


def _projected(leaf: Leaf) -> tuple[Any, ...]:
    """Query, key and value: what the projections are given."""
    found = [
        leaf.origin(linear["input"])
        for linear in leaf.operators()
        if linear.name == "linear" and _held(leaf, linear["weight"]) != "out_proj.weight"
    ]
    if len(found) == 2:
        return found[0], found[1], found[1]
    return tuple(found) if len(found) == 3 else (found[0],) * 3 if found else ()


def _held(leaf: Leaf, value: Any) -> str:
    return leaf.held.get(value, "") if isinstance(value, FlatInput) else ""


def _orders(leaf: Leaf) -> tuple[bool, ...]:
    """Whether the batch comes first: then it is swapped before anything else."""
    swapped = any(
        found.name == "transpose" and (found["dim0"], found["dim1"]) == (1, 0) and found["self"] in leaf.given_as
        for found in leaf.operators()
    )
    return (swapped,)


def _calls(leaf: Leaf, args: tuple[Any, ...]) -> Iterator[Mapping[str, Any]]:
    """The keyword arguments that a call may have been given: masks, and what is wanted of the weights."""
    wanted: dict[str, Any] = {}
    if leaf.find("scaled_dot_product_attention"):
        wanted = {"need_weights": False}
    elif leaf.find("mean") is None:
        wanted = {"average_attn_weights": False}
    used = {leaf.given_as.get(value) for value in args}
    masks = [value for value in leaf.inputs if leaf.given_as[value] not in used]
    for found in _masks(masks):
        yield {**found, **wanted}
        if "attn_mask" in found:
            yield {**found, **wanted, "is_causal": True}


def _masks(masks: list[Any]) -> Iterator[Mapping[str, Any]]:
    if not masks:
        yield {}
    elif len(masks) == 1:
        yield {"attn_mask": masks[0]}
        yield {"key_padding_mask": masks[0]}
    elif len(masks) == 2:
        yield {"key_padding_mask": masks[0], "attn_mask": masks[1]}
        yield {"key_padding_mask": masks[1], "attn_mask": masks[0]}


register(nn.MultiheadAttention, _attention)
