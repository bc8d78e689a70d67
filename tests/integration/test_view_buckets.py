"""Buckets and prefetching on graphs with collectives that run, in two processes on this machine."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor, fx, nn

from tests.support.processes import WORLD, said_by_two


def check(rank: int, folder: str) -> None:
    """One of the processes: runs a training graph as it is and edited, and says what is equal."""
    import torch.distributed as dist

    from tests.support import capturing
    from tests.support.sharded import ShardedStack, c10d, group_name
    from unflatten import GraphView

    class Reduced(nn.Module):
        """Sums two tensors over all ranks."""

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            x, y = (c10d.all_reduce(each, "sum", group_name()) for each in (x * 2, y + 1))
            return c10d.wait_tensor(x) @ c10d.wait_tensor(y)

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    try:
        args = (torch.randn(2, 8),)
        sharded = capturing.joint(capturing.by_dynamo(ShardedStack(), args), args)
        reduced = torch.export.export(Reduced(), (torch.randn(2, 3), torch.randn(3, 4))).graph_module
        said = []
        for module, parts in ((sharded, "layers.*"), (reduced, "")):
            before, view = _results(module, rank), GraphView(copy.deepcopy(module))
            made = view.bucket([parts])
            same = all(map(torch.equal, before, _results(view.module, rank)))
            said.append(f"{len(made)} {same}")
        view = GraphView(sharded)
        before = _results(sharded, rank)
        gathers = view.find(path="layers.1", op="all_gather_into_tensor")
        moved = view.layers[0].forward.hoist(gathers, reorder_collectives=True)
        same = all(map(torch.equal, before, _results(sharded, rank)))
        said.append(f"{len(moved)} {moved == list(gathers)} {same}")
        Path(folder, f"rank{rank}").write_text("; ".join(said), encoding="utf-8")
    finally:
        dist.destroy_process_group()


def _results(module: fx.GraphModule, rank: int) -> list[Tensor]:
    """What a graph gives for values that each rank has others of."""
    torch.manual_seed(rank)
    given = [torch.randn(node.meta["val"].shape) for node in module.graph.find_nodes(op="placeholder")]
    found = fx.Interpreter(module).run(*given, enable_io_processing=False)
    return [each for each in torch.utils._pytree.tree_leaves(found) if each is not None]


def test_edited_graphs_give_the_same_in_two_processes(tmp_path: Path) -> None:
    assert said_by_two(check, tmp_path) == ["6 True; 1 True; 4 True True"] * WORLD
