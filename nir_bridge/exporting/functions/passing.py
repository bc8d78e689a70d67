"""Functions that leave values as they are, that forget them, or that act in training alone."""

from __future__ import annotations

from torch import Tensor

from nir_bridge.exporting.calls import Call, Outcome, Rule


def _same(call: Call) -> Outcome:
    return call.value(0)


def _cast(call: Call) -> Outcome:
    result, given = call.result, call.argument(0, "input")
    if isinstance(result, Tensor) and not result.is_floating_point():
        raise call.no_meaning(f"a signal of type {result.dtype} has no meaning in NIR; signals are real numbers")
    if isinstance(given, Tensor) and isinstance(result, Tensor) and result.shape != given.shape:
        raise call.no_meaning("it changes the shape")
    return call.value(0)


def _same_shape(call: Call) -> Outcome:
    call.keeps_shape(call.argument(0, "input"))
    return call.value(0)


def _nothing(_: Call) -> Outcome:
    return None


_PASS = Rule(_same, "left out; the signal stays the same", keeps_state=True)
_CAST = Rule(_cast, "left out, between types of real numbers; graphs have no types", keeps_state=True)
_DROP = Rule(_same_shape, "left out, in training too")
_INFO = Rule(_nothing, "no signal: what depends on the shape, type or device alone", keeps_state=True)

_INFO_NAMES = (
    "size", "dim", "ndimension", "numel", "nelement", "stride", "is_floating_point", "is_complex", "is_contiguous",
    "get_device", "storage_offset", "element_size", "data_ptr", "untyped_storage", "__len__", "is_tensor", "type",
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones",
    "new_empty", "new_full", "new_tensor", "result_type", "can_cast", "is_same_size", "has_names", "is_inference",
    ".shape", ".device", ".dtype", ".ndim", ".is_cuda", ".layout", ".requires_grad", ".grad", ".grad_fn", ".is_leaf",
    ".names", ".is_sparse", ".is_quantized", ".is_meta", ".itemsize", ".nbytes", ".is_mps", ".is_nested", ".is_mkldnn",
    ".is_xpu", ".is_cpu", "._version", ".output_nr", ".volatile", ".retains_grad", "__hash__", "__repr__", "__format__",
    "iscomplexobj", "is_grad_enabled", "__dlpack_device__", "is_pinned", "is_shared", "is_signed", "is_neg", "is_conj",
)  # fmt: skip

PASSING = {
    **dict.fromkeys(
        ("contiguous", "clone", "detach", "detach_", "requires_grad_", "alias", "lift_fresh", "pin_memory", ".data",
         "resolve_conj", "resolve_neg", "positive", "__pos__", "conj", "real", "cpu", "cuda", "retain_grad",
         "register_hook", "share_memory_"),
        _PASS,
    ),
    **dict.fromkeys(
        ("to", "float", "double", "half", "bfloat16", "type_as", "int", "long", "bool", "short", "char", "byte"), _CAST
    ),
    **dict.fromkeys(
        ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "dropout_",
         "feature_dropout", "native_dropout"),
        _DROP,
    ),
    **dict.fromkeys(("expand", "expand_as", "view_as", "reshape_as", "broadcast_to"), _DROP),
    **dict.fromkeys(_INFO_NAMES, _INFO),
}  # fmt: skip
"""Dropout leaves spikes alone once a network runs, so that it is left out in either mode."""
