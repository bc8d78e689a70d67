"""How an assertion fails: with every difference, where it is, both sides, and a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unflatten.errors import DifferenceError, listing
from unflatten.testing.comparing import Difference
from unflatten.testing.scripts import script


def check(found: Sequence[Difference], claim: str, assertion: str, **things: Any) -> None:
    """Raises when there are differences.

    Args:
        found: the differences.
        claim: what does not hold.
        assertion: the name of the function that says so.
        things: its arguments, for a script.

    Raises:
        DifferenceError: there are differences.
    """
    if not found:
        return
    text = script(assertion, things)
    shown = "\n".join(f"    {line}" for line in text.splitlines())
    raise DifferenceError(f"{claim}:\n{listing(found)}\n  This shows it again:\n{shown}", found, text)
