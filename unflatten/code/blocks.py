"""The `with` statements of code."""

from __future__ import annotations

from unflatten.flat.values import Mode


def mode_text(mode: Mode, torch_name: str) -> str:
    """What a `with` statement says to set a mode."""
    if mode.kind == "grad":
        return f"{torch_name}.{'enable' if mode.value else 'no'}_grad()"
    dtype, enabled, cache = mode.value
    parts = [repr(mode.kind.removeprefix("autocast "))]
    parts += [f"dtype={torch_name}.{str(dtype).removeprefix('torch.')}"] if dtype is not None else []
    parts += [] if enabled else ["enabled=False"]
    parts += [f"cache_enabled={cache}"] if cache is not None else []
    return f"{torch_name}.autocast({', '.join(parts)})"
