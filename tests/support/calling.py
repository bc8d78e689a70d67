"""A result's modules called alone, and replaced, as the original's are."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from tests.support.comparing import assert_same_values
from unflatten.errors import UnknownCallError
from unflatten.testing import assert_swappable
from unflatten.testing.running import calls_of


def assert_calls_alike(
    model: nn.Module, nested: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> None:
    """Each module of the result takes the original's calls, and the original in its place gets these very calls.

    Modules that draw random numbers, or count their calls, are only compared within the whole; so are calls with sizes
    that another call of the module may have too.
    """
    for call in calls_of(copy.deepcopy(model), args, kwargs):
        alone = copy.deepcopy(nested)
        given, named = copy.deepcopy((call.args, call.kwargs))
        try:
            result = alone.get_submodule(call.name)(*given, **named)
        except UnknownCallError as error:  # it was called with these sizes, and with any
            if "do not tell apart" not in str(error):
                raise
            continue
        assert_same_values(call.result, result, call.name)
    assert_swappable(model, nested, args, kwargs)
