"""How an assertion about NIR fails: with every difference, and a script that makes the graph and says it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nir
import torch

from nir_bridge import Dynamics
from unflatten.errors import DifferenceError, listing
from unflatten.testing.comparing import Difference
from unflatten.testing.nir.code import graph_code

_HEAD = "import nir\nimport numpy as np\nimport torch\nfrom nir_bridge import Dynamics, from_nir\n"


def check_graph(found: Sequence[Difference], claim: str, assertion: str, graph: nir.NIRNode, **options: Any) -> None:
    """Raises when there are differences.

    Args:
        found: the differences.
        claim: what does not hold.
        assertion: the name of the function that says so.
        graph: its argument.
        options: its keywords.

    Raises:
        DifferenceError: there are differences.
    """
    if not found:
        return
    text = graph_script(assertion, graph, options)
    shown = "\n".join(f"    {line}" for line in text.splitlines())
    raise DifferenceError(f"{claim}:\n{listing(found)}\n  This shows it again:\n{shown}", found, text)


def graph_script(assertion: str, graph: nir.NIRNode, options: dict[str, Any]) -> str:
    """Python that makes a graph, and says an assertion of it."""
    given = "".join(f", {name}={option_code(value)}" for name, value in options.items())
    use = f"from unflatten.testing import {assertion}\n"
    return f"{_HEAD}{use}\n{graph_code(graph)}\n{assertion}(graph{given})"


def option_code(value: Any) -> str:
    """An expression for an argument."""
    if isinstance(value, torch.Tensor):
        return f"torch.tensor({value.tolist()!r}, dtype={value.dtype})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {option_code(held)}" for name, held in value.items()) + "}"
    if isinstance(value, Dynamics):
        return repr(value)
    return str(value) if isinstance(value, torch.dtype) else repr(value)
