"""What modules mean in NIR: the user's map, then those of this package, of frameworks and of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import nir
from torch import Tensor, nn
from torch.nn.utils import parametrize

from nir_bridge.errors import ExportError, ModuleMapError, NIRBridgeError
from nir_bridge.exporting.modules.own import OWN
from nir_bridge.exporting.modules.torch_nn import TORCH, Taken
from nir_bridge.exporting.recipes import Given, Recipe
from nir_bridge.exporting.restoring import restored, sketch_of
from nir_bridge.exporting.spreading import Spread
from nir_bridge.setting import Mapper, Setting
from nir_bridge.sketch import Sketch

UserMapper = Callable[[Any], "nir.NIRNode | None"]
ModuleMap = Mapping[type[nn.Module], "UserMapper | None"]

BYPASS = "bypass"


@dataclass(frozen=True, slots=True)
class Registry:
    """What modules mean.

    Attributes:
        user: the caller's map; wins over all others.
        frameworks: mappers by the dotted names of classes.
        setting: what the mappers of frameworks are told.
        batch_dims: how many leading axes are batch axes.
        bypassed: the modules that the caller leaves out, by identity.
    """

    user: ModuleMap
    frameworks: Mapping[str, Mapper]
    setting: Setting
    batch_dims: int
    bypassed: frozenset[int] = frozenset()
    known: dict[Any, tuple[Recipe | str | None, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given: Mapping[Any, Any] = self.user
        for kind, mapper in given.items():
            if not isinstance(kind, type) or not issubclass(kind, nn.Module):
                raise ModuleMapError(f"{kind!r} is no class of modules; the keys of a map are, e.g., torch.nn.ReLU")
            if mapper is not None and not callable(mapper):
                raise ModuleMapError(
                    f"what {kind.__name__} is mapped to can't be called: {mapper!r}; give a function from the "
                    "module to its node, or None to leave such modules out"
                )

    def recipe(self, module: nn.Module, where: str, running: nn.Module | None = None) -> Recipe | str | None:
        """What a module is: a node, `BYPASS`, or None to look inside it.

        Args:
            module: the module.
            where: how messages name it.
            running: the copy that runs, whose weights are those that a hook or a parametrization has just made.

        Raises:
            NIRBridgeError: it can't be written.
        """
        held = module if running is None else running
        weights = _weights(held)
        key = (id(module), tuple((id(tensor), tensor._version) for tensor in weights))
        if key not in self.known:
            self.known[key] = (self._found(module, held, where), (held, weights))  # which keeps the identities
        return self.known[key][0]

    def _found(self, module: nn.Module, held: nn.Module, where: str) -> Recipe | str | None:
        """What a module is, by the type of the original and the values of what is held."""
        computed = held._forward_pre_hooks or parametrize.is_parametrized(held)
        for kind in type(module).__mro__:
            if kind in self.user:
                return self._mapped(self.user[kind], held if computed else module, where)
        sketch = sketch_of(module)
        if sketch is not None:
            return Given(self.graph(module, sketch, where))
        for kind in type(module).__mro__:
            if not issubclass(kind, nn.Module) or type(module).forward is not kind.forward:
                continue
            found = self._default(kind, held, where)
            if found is not None:
                return found
        return None

    def _default(self, kind: type[nn.Module], module: nn.Module, where: str) -> Recipe | str | None:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in self.frameworks:
            found = self._called(lambda: self.frameworks[name](module, self.setting), where)
            return found if isinstance(found, Recipe) else Spread(_checked(found, module, where))
        entry = OWN.get(kind, TORCH.get(kind))
        if entry is None:
            return None
        make = entry.make
        return BYPASS if make is None else self._called(lambda: make(module, self.batch_dims), where)

    def _mapped(self, mapper: UserMapper | None, module: nn.Module, where: str) -> Recipe | str:
        if mapper is None:
            return BYPASS
        try:
            node = mapper(module)
        except NIRBridgeError:
            raise
        except Exception as error:  # whatever the caller's function raises
            raise ModuleMapError(
                f"{where}: the mapper of {type(module).__name__} failed: {type(error).__name__}: {error}"
            ) from error
        return BYPASS if node is None else Given(_checked(node, module, where))

    @staticmethod
    def _called(make: Callable[[], Any], where: str) -> Any:
        try:
            return make()
        except ExportError as error:
            raise type(error)(f"{where}: {error}") from error

    def graph(self, module: nn.Module, sketch: Sketch, where: str = "") -> nir.NIRGraph:
        """The graph of a network that `from_nir` made."""
        return restored(module, sketch, lambda inner, path: self.inner(inner, f"{where} {path}".strip()))

    def inner(self, module: nn.Module, path: str) -> Recipe | str | None:
        """What a module of such a network is."""
        if id(module) in self.bypassed:
            return BYPASS
        return self.recipe(module, f"module {path!r} ({type(module).__name__})")

    def takes(self, module: nn.Module) -> Taken | None:
        """The shape that a module takes, as far as it can be told without running it."""
        for kind in type(module).__mro__:
            if kind in self.user:
                found = self.recipe(module, type(module).__name__)
                taken = node_takes(found.given) if isinstance(found, Given) else None
                if taken is not None or found == BYPASS:
                    return taken
            entry = OWN.get(kind, TORCH.get(kind))
            if entry is not None:
                return entry.takes(module)
        return None


def _weights(module: nn.Module) -> list[Tensor]:
    """The tensors that a module computes with, as they are now."""
    found = [*module._parameters.values(), *(module.__dict__.get(name) for name in ("weight", "bias"))]
    return [tensor for tensor in found if isinstance(tensor, Tensor) and not tensor.is_inference()]


def node_takes(node: nir.NIRNode) -> Taken | None:
    """The shape that a node takes, where it says so."""
    types = getattr(node, "input_type", None)
    shapes = list(types.values()) if isinstance(types, Mapping) else []
    if len(shapes) != 1 or shapes[0] is None:
        return None
    shape = tuple(int(size) for size in shapes[0])
    return shape or None


def _checked(node: Any, module: nn.Module, where: str) -> nir.NIRNode:
    if not isinstance(node, nir.NIRNode):
        raise ModuleMapError(
            f"{where}: the mapper of {type(module).__name__} gave a {type(node).__name__}; it has to give a "
            "nir.NIRNode, or None to leave the module out"
        )
    return node
