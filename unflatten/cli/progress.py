"""Bars for work that takes more than a second, on standard error, and only where somebody looks at it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from unflatten.cli.text import one_line

DELAY = 1.0
"""The seconds after which a bar appears."""


@contextmanager
def working(what: str, steps: int | None = None) -> Iterator[Callable[[], None]]:
    """Shows that something is going on; gives what is to be called after each step.

    Args:
        what: goes on.
        steps: how many there are; None where nobody knows.
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(one_line(what), total=steps)
    timer = threading.Timer(DELAY, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda: progress.advance(task)
    finally:
        timer.cancel()
        progress.stop()
