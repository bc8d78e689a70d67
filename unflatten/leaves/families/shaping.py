"""Modules that move values around: flattening, padding, shuffling, unfolding, and doing nothing."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from unflatten.leaves.leaf import Leaf, Proposal
from unflatten.leaves.registry import register
from unflatten.leaves.tables import Row, each, integral, register_table, whole

_PAD = {"padding": whole("pad")}

register_table(
    {
        nn.Flatten: Row("flatten", {"start_dim": "start_dim", "end_dim": "end_dim"}),
        nn.Unflatten: Row("unflatten", {"dim": "dim", "unflattened_size": whole("sizes")}),
        nn.PixelShuffle: Row("pixel_shuffle", {"upscale_factor": "upscale_factor"}),
        nn.PixelUnshuffle: Row("pixel_unshuffle", {"downscale_factor": "downscale_factor"}),
        nn.ChannelShuffle: Row("channel_shuffle", {"groups": "groups"}),
        nn.Unfold: Row("im2col", {name: each(name) for name in ("kernel_size", "dilation", "padding", "stride")}),
        nn.Fold: Row(
            "col2im", {name: each(name) for name in ("output_size", "kernel_size", "dilation", "padding", "stride")}
        ),
        **{
            cls: Row("pad", {**_PAD, "value": lambda _, found: integral(found["value"] or 0)})
            for cls in (nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d)
        },
        **{
            cls: Row("pad", _PAD)
            for cls in (
                nn.ZeroPad1d,
                nn.ZeroPad2d,
                nn.ZeroPad3d,
                nn.ReflectionPad1d,
                nn.ReflectionPad2d,
                nn.ReflectionPad3d,
                nn.ReplicationPad1d,
                nn.ReplicationPad2d,
                nn.ReplicationPad3d,
                nn.CircularPad1d,
                nn.CircularPad2d,
                nn.CircularPad3d,
            )
        },
    }
)


def _identity(leaf: Leaf, _: type[nn.Module]) -> Iterator[Proposal]:
    if not leaf.nodes:
        yield Proposal()


register(nn.Identity, _identity)
