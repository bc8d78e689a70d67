"""Arguments of a call by the names of the parameters, and which of them is a state."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

STATE_NAMES = frozenset({"state", "states", "hx", "h", "h0", "hidden", "mem", "carry", "hidden_state"})
"""What the parameter of a state is called."""


_OFTEN = frozenset(
    {"v", "u", "s", "z", "c", "syn", "spk", "spike", "cell", "membrane", "memory", "prev", "previous", "past", "last"}
)
"""What the parameter of a state is often called, where it may be left out."""


def parameters_of(module: nn.Module) -> list[inspect.Parameter]:
    """The parameters of a module's forward; none where it can't be told."""
    try:
        found = list(inspect.signature(type(module).forward).parameters.values())[1:]
    except (TypeError, ValueError, AttributeError):  # a scripted module has no class of its own
        return []
    return found


def named_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name."""
    plain = [p for p in parameters_of(module) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters_of(module) if p.kind is p.VAR_POSITIONAL), "input")
    found = {p.name: value for p, value in zip(plain, args, strict=False)}
    found.update({f"{rest}_{at}" if at else rest: value for at, value in enumerate(args[len(plain) :])})
    return {**found, **kwargs}


def is_state_name(name: str) -> bool:
    """Whether a parameter is for a state, by its name."""
    return name in STATE_NAMES or name.endswith("_state")


def is_state_parameter(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is for a state, by its name, and by whether it may be left out."""
    name = parameter.name
    if parameter.default is None and (name in _OFTEN or name.startswith(("prev_", "last_", "old_"))):
        return True
    return is_state_name(name)
