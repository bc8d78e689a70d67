"""Tensor parallelism on an unflattened model, in two processes on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.integration.llama import llama, unflattened
from tests.support.processes import WORLD, said_by_two


def shard(rank: int, folder: str) -> None:
    """One of the processes: shards attention and MLP of every layer, runs, and says whether the result is eager's."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    try:
        model, args, kwargs = llama()
        expected = model(*args, **kwargs).logits
        nested = unflattened(model, args, kwargs)
        plan: dict[str, ParallelStyle] = {
            f"model.layers.*.{name}": ColwiseParallel() if name.split(".")[1] in COLUMNS else RowwiseParallel()
            for name in (*(f"self_attn.{key}_proj" for key in "qkvo"), *(f"mlp.{key}_proj" for key in WIDE))
        }
        parallelize_module(nested, init_device_mesh("cpu", (WORLD,)), plan)
        weight: Any = nested.get_submodule("model.layers.0.mlp.up_proj").weight
        local = weight.to_local().shape
        close = torch.allclose(nested(*args, **kwargs).logits, expected, atol=1e-5)
        Path(folder, f"rank{rank}").write_text(f"{tuple(local)} {close}", encoding="utf-8")
    finally:
        dist.destroy_process_group()


COLUMNS = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}
WIDE = ("gate", "up", "down")


def test_sharded_in_two_processes_it_equals_eager(tmp_path: Path) -> None:
    import pytest

    pytest.importorskip("transformers", reason="pip install transformers")
    assert said_by_two(shard, tmp_path) == ["(32, 32) True"] * WORLD
