"""What the values of a body are called."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from unflatten.flat.values import FlatInput, FlatNode, Value
from unflatten.grouping.drafts import Draft
from unflatten.grouping.naming import is_plain, natural
from unflatten.paths import ModulePath


def result_label(child: Draft, value: FlatNode) -> str:
    """A call's result is called after the module, unless it has a position instead of a name."""
    name = child.path.name
    return name if is_plain(name) or keyword.iskeyword(name) else natural(value.name)[0]


def input_label(value: Value) -> str:
    """What a parameter is called that a value goes to."""
    if isinstance(value, FlatInput) and value.fqn:
        return ModulePath.parse(value.fqn).name
    return value.name if isinstance(value, FlatInput) else natural(value.name)[0]


def graph_label(name: str) -> str:
    """What a higher-order operator's graph is called: capturing numbers those of a whole program, which says nothing.

    >>> graph_label("true_graph_3"), graph_label("inner.body_graph_0")
    ('true_graph', 'inner_body_graph')
    """
    return natural(name.replace(".", "_"))[0]


def fresh(name: str, taken: Iterable[str]) -> str:
    """A name like another one that is not taken."""
    base = name if is_plain(name) else "x"
    fresh, count = base, 1
    while fresh in taken:
        fresh, count = f"{base}_{count}", count + 1
    return fresh
