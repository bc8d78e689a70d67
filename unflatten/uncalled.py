"""Modules that the program never calls: containers, modules that do nothing, and classes of torch's own."""

from __future__ import annotations

from torch import nn

from unflatten.descriptions import IDENTITY, Container, Description
from unflatten.recording.naming import find

_CLASSES: dict[Container, type[nn.Module]] = {
    Container.LIST: nn.ModuleList,
    Container.DICT: nn.ModuleDict,
    Container.SEQUENTIAL: nn.Sequential,
    Container.PARAMETERS: nn.ParameterList,
    Container.PARAMETER_DICT: nn.ParameterDict,
}
_TORCH = "torch.nn.modules."


def make_uncalled(description: Description, original: type[nn.Module] | None) -> nn.Module | None:
    """An empty module as described, None where the description does not tell all of it.

    Whoever fills the tables of a container calls `finish_container` afterwards.

    Args:
        description: what the module is.
        original: the class that it is of, where that is at hand.
    """
    if description.container is not None:
        return _empty(original or _CLASSES[description.container])
    if original is not None:
        return _empty(original) if original.__module__.startswith(_TORCH) else None
    if description.type_name == IDENTITY:
        return nn.Identity()
    if description.whole and description.type_name.startswith(_TORCH):
        module, _, name = description.type_name.rpartition(".")
        found = find(f"{module}:{name}")
        if isinstance(found, type) and issubclass(found, nn.Module):
            return _empty(found)
    return None


def _empty(kind: type[nn.Module]) -> nn.Module:
    """A module whose own `__init__` has not run: its attributes and tables are filled by others."""
    made = kind.__new__(kind)
    nn.Module.__init__(made)
    return made


def finish_container(module: nn.Module) -> None:
    """Tells the two containers of parameters, which keep count of them, what they hold."""
    if isinstance(module, nn.ParameterList):
        module._size = len(module._parameters)
    elif isinstance(module, nn.ParameterDict):
        module._keys = dict.fromkeys(module._parameters)
