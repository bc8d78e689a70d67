"""Names: their order, which does not depend on where things stand in a graph, and what Python makes of them."""

from __future__ import annotations

import keyword
import re
import unicodedata

_TAIL = re.compile(r"^(.*?)_?(\d*)$", re.DOTALL)


def natural(name: str) -> tuple[str, int, str]:
    """A sort key under which `mul_2` comes before `mul_10`, and `mul` before both; no two names have the same.

    >>> sorted(["mul_10", "mul_2", "add", "mul"], key=natural)
    ['add', 'mul', 'mul_2', 'mul_10']
    >>> natural("mul_10")
    ('mul', 10, 'mul_10')
    """
    match = _TAIL.match(name)
    base, number = match.groups() if match else (name, "")
    return base, int(number) if number else 0, name


def is_plain(name: str) -> bool:
    """Whether code can hold a name as it is: Python reads some letters of Unicode as others.

    >>> [is_plain(name) for name in ("lif", "é", "\N{MASCULINE ORDINAL INDICATOR}", "for", "a b")]
    [True, True, False, False, False]
    """
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name
