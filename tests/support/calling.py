"""A result's modules called alone, and replaced, as the original's are."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from tests.support.comparing import assert_same_values
from unflatten.testing import assert_swappable
from unflatten.testing.running import calls_of


def assert_calls_alike(
    model: nn.Module, nested: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> None:
    """Each module of the result takes the original's calls, and the original in its place gets these very calls.

    Modules that draw random numbers, or count their calls, are only compared within the whole.
    """
    for call in calls_of(copy.deepcopy(model), args, kwargs):
        alone = copy.deepcopy(nested)
        given, named = copy.deepcopy((call.args, call.kwargs))
        assert_same_values(call.result, alone.get_submodule(call.name)(*given, **named), call.name)
    assert_swappable(model, nested, args, kwargs)
