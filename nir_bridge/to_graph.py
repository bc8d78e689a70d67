"""From a torch module to a NIR graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import nir
from torch import Tensor, nn

from nir_bridge.dynamics import Dynamics, as_dynamics
from nir_bridge.errors import DynamicsError, ExportError
from nir_bridge.exporting.assembling import assemble
from nir_bridge.exporting.choosing import chosen
from nir_bridge.exporting.leafing import Leaves
from nir_bridge.exporting.modules import ModuleMap, Registry
from nir_bridge.exporting.modules.known import framework_maps
from nir_bridge.exporting.probing import guessed_run
from nir_bridge.exporting.restoring import sketch_of
from nir_bridge.exporting.running import Example, Job, run, state_parameters
from nir_bridge.exporting.verifying import verify
from nir_bridge.notes import note
from nir_bridge.primitives.neuron import Neuron
from nir_bridge.primitives.threshold import Threshold
from nir_bridge.setting import Setting


def to_nir(  # noqa: PLR0913  # each is a choice of its own, by keyword
    model: nn.Module,
    module_map: ModuleMap | None = None,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dt: float | None = None,
    dynamics: str | Dynamics | None = None,
    bypass: Any = (),
    stateful_modules: Any = (),
    type_check: bool = True,
    batch_dims: int = 1,
    flatten: bool = False,
) -> nir.NIRGraph:
    """A torch module as a NIR graph."""
    if not isinstance(model, nn.Module):
        raise ExportError(f"can't export a {type(model).__name__}; give a torch.nn.Module")
    setting = Setting(dt, as_dynamics(own_dynamics(model) if dynamics is None else dynamics, dt))
    left_out = frozenset(chosen(model, bypass, "bypass"))
    registry = Registry(dict(module_map or {}), framework_maps(), setting, batch_dims, left_out)
    states = chosen(model, stateful_modules, "stateful_modules")
    leaves = Leaves(registry, states)
    job = Job(model, leaves, setting, batch_dims, state_parameters(model, states.get(id(model))))
    graph = _graph(job, registry, args, kwargs, flatten)
    note(graph, setting.dynamics)
    if type_check:
        verify(graph, setting)
    return graph


def _graph(job: Job, registry: Registry, args: Any, kwargs: Any, flat: bool) -> nir.NIRGraph:
    """The graph of a model: as it was read, where it was; else from a run."""
    sketch = sketch_of(job.model)
    if sketch is not None and not flat and type(job.model) not in registry.user:
        return registry.graph(job.model, sketch)
    if args is None and not kwargs:
        return assemble(guessed_run(job), flatten=flat)
    given = (args,) if isinstance(args, Tensor) else tuple(args or ())
    return assemble(run(job, Example(given, dict(kwargs or {}))), flatten=flat)


def own_dynamics(model: nn.Module) -> str | Dynamics:
    """The rules of the neurons of this package in a model; NIR's where there are none.

    Raises:
        DynamicsError: they differ.
    """
    found = {module.dynamics: None for module in model.modules() if isinstance(module, Neuron | Threshold)}
    if len(found) > 1:
        raise DynamicsError("the model has neurons of different dynamics; say which the graph is for: dynamics=...")
    return next(iter(found), "nir")
