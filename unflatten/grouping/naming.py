"""Names in an order that does not depend on where things stand in a graph."""

from __future__ import annotations

import re

_TAIL = re.compile(r"^(.*?)_?(\d*)$", re.DOTALL)


def natural(name: str) -> tuple[str, int]:
    """A sort key under which `mul_2` comes before `mul_10`, and `mul` before both.

    >>> sorted(["mul_10", "mul_2", "add", "mul"], key=natural)
    ['add', 'mul', 'mul_2', 'mul_10']
    """
    match = _TAIL.match(name)
    base, number = match.groups() if match else (name, "")
    return base, int(number) if number else 0
