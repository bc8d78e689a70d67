"""Tensor parallelism on an unflattened model, in two processes on this machine."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import torch

from tests.integration.llama import llama, unflattened

WORLD, SECONDS = 2, 120


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
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=shard, args=(rank, str(tmp_path))) for rank in range(WORLD)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(SECONDS)
        if worker.is_alive():
            worker.kill()
    assert [worker.exitcode for worker in workers] == [0, 0]
    for rank in range(WORLD):
        assert (tmp_path / f"rank{rank}").read_text(encoding="utf-8") == "(32, 32) True"
