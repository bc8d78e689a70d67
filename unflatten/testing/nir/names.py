"""Names of nodes: readable ones first, then all that a file may hold."""

from __future__ import annotations

from functools import cache
from typing import Final

from hypothesis import strategies as st

PLAIN: Final = ("a", "b", "c", "lif", "w", "lif1", "fc2")
DOTTED: Final = ("lif1.lif", "lif1.w_rec", "a.b", "a.b.c", "b.a", "a.in", "c.out", "sub.lif")
HOSTILE: Final = (
    "a_b", "a%2Eb", "%", "50%", "", ".", "..", ".a", "a.", "a..b", "1", "0.1", "for", "None", "self", "state", "x",
    "forward", "run", "type", "code", "compile", "training", "nodes", "edges", "State", "torch", "__class__",
    "a b", "a'b", 'a"b', "a\\b", "a\nb", "é", "ﬁ", "\u202ea", "); raise SystemExit #", "{}", "%s", "lif1:v",
    "output_a", "input_a", "lif.out", "a.v",
)  # fmt: skip
"""Words of Python and of this package, escapes, punctuation, look-alikes."""


@cache  # what is drawn from again and again is made once
def node_names(*, hostile: bool = True) -> st.SearchStrategy[str]:
    """Names of nodes.

    Args:
        hostile: names that are no identifiers, words of Python, and names that look like others too.

    Example:
        >>> from hypothesis import find
        >>> "." in find(node_names(), lambda name: "." in name)
        True
    """
    usual = st.sampled_from((*PLAIN, *DOTTED))
    if not hostile:
        return usual
    text = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), max_size=4)
    return st.one_of(usual, usual, st.sampled_from(HOSTILE), text)


@cache
def port_names(word: str, *, hostile: bool = True) -> st.SearchStrategy[str]:
    """Names of Input or Output nodes.

    nir's type checks add nodes called `input_<name>` and `output_<name>`, which an importer may leave out; there are
    none like that here.

    Args:
        word: `"input"` or `"output"`.
        hostile: as for `node_names`.
    """
    usual = st.sampled_from((word, word[:-3], f"{word}2", "p", "q", f"sub.{word}"))
    if not hostile:
        return usual
    other = node_names().filter(lambda name: not name.startswith(("input_", "output_")))
    return st.one_of(usual, usual, other)
