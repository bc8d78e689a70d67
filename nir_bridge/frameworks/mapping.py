"""How the maps of frameworks are written: by names of classes, so that no framework is ever imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import nir
import numpy as np
from torch import nn

from nir_bridge.dynamics import Dynamics
from nir_bridge.errors import ExportError
from nir_bridge.exporting.recipes import Recipe, array
from nir_bridge.setting import Setting

Meaning: TypeAlias = "nir.NIRNode | Recipe"
Make = Callable[[Any, Dynamics], Meaning]


@dataclass(frozen=True, slots=True)
class FrameworkMapper:
    """What a class of a framework means.

    Attributes:
        names: the dotted names of the class, in all versions of the framework.
        preset: the rules of the framework.
        make: the node, under the rules that the graph is written for.
        fixed: methods that make the step; a class that is derived and has others is another neuron.
        is_neuron: whether the rules matter to it.
    """

    names: tuple[str, ...]
    preset: str
    make: Make
    fixed: tuple[str, ...] = ()
    is_neuron: bool = True

    def __call__(self, module: nn.Module, setting: Setting) -> Meaning:
        """The node of a module.

        Raises:
            ExportError: it can't be written under the rules.
        """
        kind = next(kind for kind in type(module).__mro__ if f"{kind.__module__}.{kind.__qualname__}" in self.names)
        changed = [name for name in self.fixed if getattr(type(module), name, None) is not getattr(kind, name, None)]
        if changed:
            raise ExportError(
                f"it is a {kind.__name__} with another {', '.join(changed)}, so it is another neuron; map it: "
                f"to_nir(model, {{{type(module).__name__}: lambda module: nir.LIF(...)}})"
            )
        return self.make(module, setting.dynamics)


def names_of(module: nn.Module) -> list[str]:
    """The dotted names of a module's classes, its own first."""
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(module).__mro__]


def refused(name: str, reason: str) -> Make:
    """What a class is that NIR has no node for."""

    def make(module: Any, _: Dynamics) -> NoReturn:
        raise ExportError(
            f"{name} has no meaning in NIR: {reason}. Map it to a graph of your own: "
            f"to_nir(model, {{{type(module).__name__}: lambda module: nir.NIRGraph(...)}})"
        )

    return make


def only(field: str, value: Any, wanted: str, fix: str) -> ExportError:
    """The error about a field of a module that only one value of is expressible."""
    return ExportError(f"{field}={value!r} has no meaning in NIR, which has only {wanted}; {fix}")


def linear(weight: Any, bias: Any = None) -> nir.NIRNode:
    """A matrix, with what is added."""
    return nir.Linear(array(weight)) if bias is None else nir.Affine(array(weight), array(bias))


def connection(module: nn.Module, name: str) -> nir.NIRNode:
    """What a recurrent connection is.

    Raises:
        ExportError: it is no plain layer.
    """
    if isinstance(module, nn.Linear):
        return linear(module.weight, module.bias)
    if isinstance(module, nn.Conv2d) and module.padding_mode == "zeros":
        bias = np.zeros(module.out_channels, np.float32) if module.bias is None else array(module.bias)
        fields: tuple[Any, ...] = (module.stride, module.padding, module.dilation)
        return nir.Conv2d(None, array(module.weight), *fields, module.groups, bias)
    if isinstance(module, nn.Identity):
        return nir.Scale(np.ones((), np.float32))
    raise ExportError(f"{name} is a {type(module).__name__}; a Linear, a Conv2d or an Identity can be written")


def acts_alone(node: nir.NIRNode) -> bool:
    """Whether a connection gives something for nothing: it has a bias."""
    bias = getattr(node, "bias", None)
    return bias is not None and bool(np.any(bias))


def recurrent(neuron: nir.NIRNode, feedback: nir.NIRNode, feed: nir.NIRNode | None = None) -> nir.NIRGraph:
    """A neuron whose output comes back through a connection.

    Args:
        neuron: the neuron.
        feedback: the connection.
        feed: what inputs go through first.
    """
    nodes: dict[str, nir.NIRNode] = {"input": _port(nir.Input, "input"), "lif": neuron, "w_rec": feedback}
    nodes["output"] = _port(nir.Output, "output")
    edges = [("lif", "w_rec"), ("w_rec", "lif"), ("lif", "output")]
    edges += [("input", "lif")] if feed is None else [("input", "w_in"), ("w_in", "lif")]
    if feed is not None:
        nodes["w_in"] = feed
    return nir.NIRGraph(nodes, edges, type_check=False)


def _port(kind: Any, key: str) -> nir.NIRNode:
    port: nir.NIRNode = kind({key: None})
    return port


def by_name(*mappers: FrameworkMapper) -> Mapping[str, FrameworkMapper]:
    """Mappers by all of their names."""
    return {name: mapper for mapper in mappers for name in mapper.names}
