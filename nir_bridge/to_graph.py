"""From a torch module to a NIR graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import nir
from torch import nn

from nir_bridge.dynamics import Dynamics, as_dynamics
from nir_bridge.errors import ExportError
from nir_bridge.exporting.assembling import assemble
from nir_bridge.exporting.choosing import chosen
from nir_bridge.exporting.leafing import Leaves
from nir_bridge.exporting.modules import ModuleMap, Registry
from nir_bridge.exporting.probing import guessed_run
from nir_bridge.exporting.running import Example, Job, run, state_parameters
from nir_bridge.exporting.verifying import verify
from nir_bridge.notes import note
from nir_bridge.setting import Setting


def to_nir(  # noqa: PLR0913  # each is a choice of its own, by keyword
    model: nn.Module,
    module_map: ModuleMap | None = None,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dt: float | None = None,
    dynamics: str | Dynamics = "nir",
    bypass: Any = (),
    stateful_modules: Any = (),
    type_check: bool = True,
    batch_dims: int = 1,
    flatten: bool = False,
) -> nir.NIRGraph:
    """A torch module as a NIR graph."""
    if not isinstance(model, nn.Module):
        raise ExportError(f"can't export a {type(model).__name__}; give a torch.nn.Module")
    setting = Setting(dt, as_dynamics(dynamics, dt))
    registry = Registry(dict(module_map or {}), {}, setting, batch_dims)
    states = chosen(model, stateful_modules, "stateful_modules")
    leaves = Leaves(registry, frozenset(chosen(model, bypass, "bypass")), states)
    job = Job(model, leaves, setting, batch_dims, state_parameters(model, states.get(id(model))))
    if args is None and not kwargs:
        trace = guessed_run(job)
    else:
        trace = run(job, Example(tuple(args or ()), dict(kwargs or {})))
    graph = assemble(trace, flatten=flatten)
    note(graph, setting.dynamics)
    if type_check:
        verify(graph, setting)
    return graph
