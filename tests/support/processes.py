"""Functions of `torch.distributed` in two processes on this machine, bounded in time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

WORLD, SECONDS = 2, 120


def said_by_two(work: Callable[[int, str], None], folder: Path) -> list[str]:
    """What each process has written into the file `rank<number>` of a folder.

    Args:
        work: what each does, given its rank and the folder.
        folder: an empty folder.
    """
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(rank, str(folder))) for rank in range(WORLD)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(SECONDS)
        if worker.is_alive():
            worker.kill()
    assert [worker.exitcode for worker in workers] == [0] * WORLD
    return [(folder / f"rank{rank}").read_text(encoding="utf-8") for rank in range(WORLD)]
