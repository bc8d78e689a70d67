"""`SumPool2d`: the sum over a window. `AvgPool2d`: the sum divided by the size of the window, padding included."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from nir_bridge.errors import ShapeError
from nir_bridge.fields import Fields, Shape, Target
from nir_bridge.primitives.base import Primitive, mismatch

Pair = tuple[int, int]


class SumPool2d(nn.Module):
    """The sum over a window of the last two axes, zeros around."""

    def __init__(self, kernel_size: Shape, stride: Shape, padding: Shape) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        """The sums."""
        return functional.avg_pool2d(x, self.kernel_size, self.stride, self.padding, divisor_override=1)

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _pair(fields: Fields, name: str) -> Pair:
    height, width = fields.numbers(name, 2)
    return height, width


def _window(fields: Fields) -> tuple[Pair, Pair, Pair]:
    kernel, stride, padding = (_pair(fields, name) for name in ("kernel_size", "stride", "padding"))
    for name, values in (("kernel_size", kernel), ("stride", stride)):
        if min(values) < 1:
            raise fields.error(name, f"is {values}; it has to be at least 1")
    if any(pad < 0 or 2 * pad > size for pad, size in zip(padding, kernel, strict=True)):
        raise fields.error("padding", f"is {padding}; it has to be from 0 to half of the kernel {kernel}")
    return kernel, stride, padding


def _takes(_: Fields) -> Shape | None:
    return None


def _gives(fields: Fields, given: Shape | None) -> Shape | None:
    window = _window(fields)
    if given is None:
        return None
    if len(given) != 3:
        raise mismatch(fields, "kernel_size", "(channels, height, width)", given)
    sizes = [
        (size + 2 * pad - kernel) // stride + 1 for size, kernel, stride, pad in zip(given[1:], *window, strict=True)
    ]
    if min(sizes) < 1:
        raise fields.error("kernel_size", f"the window is larger than the padded input of shape {given}", ShapeError)
    return (given[0], *sizes)


def _make_sum(fields: Fields, _given: Shape | None, _target: Target) -> nn.Module:
    return SumPool2d(*_window(fields))


def _make_average(fields: Fields, _given: Shape | None, _target: Target) -> nn.Module:
    return nn.AvgPool2d(*_window(fields))


SUM_POOL_2D = Primitive(_takes, _gives, _make_sum)
AVG_POOL_2D = Primitive(_takes, _gives, _make_average)
