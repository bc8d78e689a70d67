"""What commands print: to a terminal in colours and in its width, to anything else as plain lines of any length."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from unflatten.cli.text import clean, one_line


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading.
        numbers: whether it holds numbers, which stand to the right.
        style: its colour.
    """

    title: str
    numbers: bool = False
    style: str = ""


class Screen:
    """Standard output, or another stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.console = Console(file=self.stream, markup=False, highlight=False, emoji=False)

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks at it."""
        return self.console.is_terminal

    def line(self, text: str = "", style: str = "") -> None:
        """Prints text as it is, but for what would do something to the terminal."""
        if self.is_terminal:
            self.console.print(Text(clean(text), style), soft_wrap=True)
        else:
            self.stream.write(clean(text) + "\n")

    def code(self, text: str) -> None:
        """Prints Python."""
        if self.is_terminal:
            self.console.print(Syntax(clean(text), "python", background_color="default"), soft_wrap=True)
        else:
            self.line(text)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Prints a table; columns without any text are left out."""
        cells = [[one_line(cell) for cell in row] for row in rows]
        kept = [at for at in range(len(columns)) if any(row[at] for row in cells)]
        columns, cells = [columns[at] for at in kept], [[row[at] for at in kept] for row in cells]
        if self.is_terminal:
            self.console.print(_rich(columns, cells))
        else:
            self.stream.write(_plain(columns, cells))


def _rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.numbers else "left",
            style=column.style,
            overflow="fold",
            no_wrap=column.numbers,
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    lines = [[column.title for column in columns], *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    text = (
        "  ".join(
            cell.rjust(width) if column.numbers else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    )
    return "".join(f"{line}\n" for line in text)
