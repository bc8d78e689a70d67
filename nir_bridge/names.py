"""Names of nodes as paths of modules, injective and reversible.

A dot in a name is a step into a module, as frameworks mean it (`lif1.lif` is `lif` in `lif1`). Names that can't be
read like that keep the dot, escaped: torch allows everything in the name of a child but dots, and no empty name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_EMPTY = "%"


def escape(part: str) -> str:
    """A string as the name of a child module.

    >>> escape("a.b"), escape("50%"), escape("")
    ('a%2Eb', '50%25', '%')
    """
    return part.replace("%", "%25").replace(".", "%2E") or _EMPTY


def unescape(name: str) -> str:
    """The string that `escape` made a name of.

    >>> [unescape(escape(text)) for text in ("a.b", "50%", "", "%2E")]
    ['a.b', '50%', '', '%2E']
    """
    return "" if name == _EMPTY else name.replace("%2E", ".").replace("%25", "%")


def split_names(names: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The path of each node of a graph.

    A name is split at its dots, except after a prefix that is a node itself: nothing can be a node and hold
    others, so what follows stays one name. Different names have different paths.

    >>> split_names(["lif1.lif", "lif1.w_rec", "a", "a.b", "a_b", ".c"])["a.b"]
    ('a%2Eb',)
    """
    known = frozenset(names)
    return {name: _split(name, known) for name in known}


def _split(name: str, known: frozenset[str]) -> tuple[str, ...]:
    parts = name.split(".")
    path: list[str] = []
    start = end = 0
    prefix = ""
    for at, part in enumerate(parts[:-1]):
        prefix = f"{prefix}.{part}" if at else part
        if prefix not in known:
            path.append(escape(".".join(parts[start : at + 1])))
            start = at + 1
        end = at + 1
    path.append(escape(".".join(parts[start : end + 1])))
    return tuple(path)


def join_path(path: Iterable[str]) -> str:
    """The name of a node from its path, where no nested graphs are on the way.

    >>> join_path(("lif1", "lif")), join_path(("a%2Eb",))
    ('lif1.lif', 'a.b')
    """
    return ".".join(map(unescape, path))
