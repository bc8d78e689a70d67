"""From types of NIR nodes to the factories of their modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import nir
from torch import nn

from nir_bridge.errors import NodeMapError, UnmappedNodeError
from nir_bridge.primitives import PRIMITIVES

Factory = Callable[[Any], "nn.Module | None"]
"""From a node to its module; None leaves the node to what is there by default."""
_F = TypeVar("_F", bound=Factory)

_STATE_NAMES = frozenset({"hx", "h", "hidden", "mem", "carry"})


class NodeMap(Mapping[type[nir.NIRNode], Factory]):
    """A mapping from types of nodes to factories of modules. Its entries win over the defaults; subclasses count.

    A factory takes the node and gives an `nn.Module` with `forward(x)`, or one with a state:
    `forward(x, state) -> (y, state)`, where `state` is None at the first step. Modules of `nn.RNN` and its kin
    take one step at a time. `nir.NIRGraph` may be a key, for nested graphs.

    Example:
        >>> import nir, torch
        >>> node_map = NodeMap()
        >>> @node_map.register(nir.LIF)
        ... def make_lif(node):
        ...     return torch.nn.ReLU()
        >>> list(node_map)
        [<class 'nir.ir.neuron.LIF'>]
    """

    def __init__(self, entries: Mapping[type[nir.NIRNode], Factory] | None = None) -> None:
        self._entries: dict[type[nir.NIRNode], Factory] = {}
        if entries is not None and not isinstance(entries, Mapping):
            raise NodeMapError(
                f"a node map is made of a mapping from types of nodes to factories, not of a {type(entries).__name__}"
            )
        for kind, factory in (entries or {}).items():
            self._add(kind, factory)

    def _add(self, kind: Any, factory: Any) -> None:
        if not isinstance(kind, type) or not issubclass(kind, nir.NIRNode):
            raise NodeMapError(f"{kind!r} is no type of NIR nodes; the keys of a node map are, e.g. nir.LIF")
        if not callable(factory):
            raise NodeMapError(f"what {kind.__name__} is mapped to is no factory: {factory!r} can't be called")
        self._entries[kind] = factory

    def register(self, kind: type[nir.NIRNode]) -> Callable[[_F], _F]:
        """A decorator that maps a type of nodes to a factory.

        Raises:
            NodeMapError: it is no type of nodes.
        """

        def added(factory: _F) -> _F:
            self._add(kind, factory)
            return factory

        return added

    def __getitem__(self, kind: type[nir.NIRNode]) -> Factory:
        return self._entries[kind]

    def __iter__(self) -> Iterator[type[nir.NIRNode]]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"NodeMap({', '.join(kind.__name__ for kind in self)})"

    def factory(self, node: nir.NIRNode) -> Factory | None:
        """The factory for a node, of its type or the nearest base; None where there is none."""
        return next((self._entries[kind] for kind in type(node).__mro__ if kind in self._entries), None)

    def make(self, node: nir.NIRNode, label: str) -> nn.Module | None:
        """What the factory for a node makes; None where there is none, or where it leaves the node to the default.

        Raises:
            NodeMapError: it makes something else than a module.
        """
        factory = self.factory(node)
        made = None if factory is None else factory(node)
        if made is not None and not isinstance(made, nn.Module):
            raise NodeMapError(
                f"the factory for {type(node).__name__} {label!r} gave a {type(made).__name__}; "
                "it has to give an nn.Module"
            )
        return made

    def unmapped(self, node: nir.NIRNode, label: str) -> UnmappedNodeError:
        """The error for a node that nothing is known about."""
        kind = type(node).__name__
        known = sorted({mapped.__name__ for mapped in (*self, *PRIMITIVES)})
        return UnmappedNodeError(
            f"no module is known for node {label!r} of type {kind}. Mapped are {', '.join(known)}. Give it a factory: "
            f"node_map = NodeMap({{{kind}: lambda node: MyModule(node)}}), from_nir(graph, node_map)"
        )


class RecurrentStep(nn.Module):
    """One step of an `nn.RNN`, `nn.LSTM` or `nn.GRU`, or of one of their cells; state as they have it."""

    def __init__(self, inner: nn.RNNBase | nn.RNNCellBase) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any, state: Any = None) -> tuple[Any, Any]:
        """One step.

        Args:
            x: the input, with any leading batch axes.
            state: what the last step returned; None for the start.

        Returns:
            The output and the new state.
        """
        batch = x.reshape(-1, x.shape[-1])
        if isinstance(self.inner, nn.RNNCellBase):
            state = self.inner(batch, state)
            y = state[0] if isinstance(state, tuple) else state
        else:
            axis = 1 if self.inner.batch_first else 0
            y, state = self.inner(batch.unsqueeze(axis), state)
            y = y.squeeze(axis)
        return y.reshape(*x.shape[:-1], y.shape[-1]), state


def adapted(module: nn.Module) -> nn.Module:
    """A module of torch's recurrent family as one that takes steps."""
    return RecurrentStep(module) if isinstance(module, nn.RNNBase | nn.RNNCellBase) else module


def takes_state(module: nn.Module, label: str) -> bool:
    """Whether a module has a state, from the parameters of its `forward`.

    Raises:
        NodeMapError: it takes no input, or more than an input and a state.
    """
    parameters = list(inspect.signature(module.forward).parameters.values())
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    hidden = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and ("state" in p.name or p in needed)]
    starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if hidden or len(needed) > 2 or not (plain or starred):
        signature = ", ".join(map(str, parameters))
        raise NodeMapError(
            f"the {type(module).__name__} made for node {label!r} has forward({signature}); it has to be "
            "forward(x), or forward(x, state) returning (y, state)"
        )
    if len(plain) < 2:
        return False
    name = plain[1].name
    return plain[1] in needed or "state" in name or name in _STATE_NAMES
