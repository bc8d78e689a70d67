"""Torch's containers, made to hold what is put into their tables."""

from __future__ import annotations

from torch import nn

from unflatten.descriptions import Container

_CLASSES: dict[Container, type[nn.Module]] = {
    Container.LIST: nn.ModuleList,
    Container.DICT: nn.ModuleDict,
    Container.SEQUENTIAL: nn.Sequential,
    Container.PARAMETERS: nn.ParameterList,
    Container.PARAMETER_DICT: nn.ParameterDict,
}


def make_container(kind: Container, original: type[nn.Module] | None) -> nn.Module:
    """An empty container; whoever fills its tables calls `finish_container` afterwards.

    Args:
        kind: what it is.
        original: the class that it is of, where that is another one.
    """
    if original is not None:
        made = original.__new__(original)
        nn.Module.__init__(made)
        return made
    return _CLASSES[kind]()


def finish_container(module: nn.Module) -> None:
    """Tells the two containers of parameters, which keep count of them, what they hold."""
    if isinstance(module, nn.ParameterList):
        module._size = len(module._parameters)
    elif isinstance(module, nn.ParameterDict):
        module._keys = dict.fromkeys(module._parameters)
