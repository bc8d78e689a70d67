"""From a torch module to a NIR graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import nir
from torch import Tensor, nn

from nir_bridge.dynamics import Dynamics, as_dynamics
from nir_bridge.errors import DynamicsError, ExportError, NoMeaningError
from nir_bridge.exporting.assembling import assemble
from nir_bridge.exporting.choosing import chosen
from nir_bridge.exporting.delaying import Delays
from nir_bridge.exporting.leafing import Leaves
from nir_bridge.exporting.modules import ModuleMap, Registry
from nir_bridge.exporting.probing import guessed_run
from nir_bridge.exporting.restoring import keeps_values, sketch_of
from nir_bridge.exporting.running import Example, Job, run, state_parameters
from nir_bridge.exporting.shadow import deep_enough, uncompiled
from nir_bridge.exporting.unnesting import unnested
from nir_bridge.exporting.verifying import verify
from nir_bridge.frameworks import framework_maps, presets_in
from nir_bridge.notes import note, note_order
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
    """A torch module as a NIR graph that means the same, with its hierarchy and names.

    A copy of the model runs once, under `torch.no_grad`; the model itself is left as it is. Modules with a meaning in
    NIR become nodes, other modules graphs of what they call. Arrays are copies, whatever the device and type of the
    parameters. A network that `from_nir` made comes back as the graph that it was.

    Args:
        model: the model, a single step of it, or one that loops over time in the same way at every step.
        module_map: from classes of modules to functions from a module to its node; None, or a function that gives
            None, leaves such modules out. Wins over what is known by default; subclasses count.
        args: an example of the positional arguments. Needed where layers don't tell the shapes of the inputs.
        kwargs: an example of the keyword arguments.
        dt: the length of a step in seconds, for neurons that have none, in place of the one in `dynamics`.
        dynamics: the rules that the graph is meant to be run by, noted in its metadata; None for those of the model's
            own neurons, and `"nir"` where it has none.
        bypass: paths or classes of modules to leave out: what leads into them leads to what comes after.
        stateful_modules: classes or paths of modules that take a state, mapped to the name of that argument, where it
            is not called `state`, `hx`, `hidden` or the like.
        type_check: compare the shapes of all nodes, as far as they are known.
        batch_dims: how many leading axes of the inputs are batch axes, which NIR does not have.
        flatten: one graph with dotted names instead of nested graphs.

    Raises:
        NoMeaningError: the model does something that NIR has nothing for.
        ExportError: the model can't be run, or copied, or an argument names no module.
        ModuleMapError: the module map, or what it gave, can't be used.
        DynamicsError: there are no such dynamics.
        ShapeError: shapes don't fit together.

    Example:
        >>> import torch
        >>> from nir_bridge import to_nir
        >>> graph = to_nir(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout()))
        >>> list(graph.nodes), graph.edges
        (['input', '0', 'output'], [('input', '0'), ('0', 'output')])
    """
    if not isinstance(model, nn.Module):
        raise ExportError(f"can't export a {type(model).__name__}; give a torch.nn.Module")
    model = uncompiled(model)
    setting = Setting(dt, as_dynamics(own_dynamics(model) if dynamics is None else dynamics, dt))
    left_out = frozenset(chosen(model, bypass, "bypass"))
    registry = Registry(dict(module_map or {}), framework_maps(), setting, batch_dims, left_out)
    states = chosen(model, stateful_modules, "stateful_modules")
    leaves = Leaves(registry, states)
    job = Job(model, leaves, setting, batch_dims, state_parameters(model, states.get(id(model))))
    with deep_enough(model):
        graph, delays = _graph(job, registry, args, kwargs, flatten)
        setting = _fitting(graph, delays, setting, free=dynamics is None)
        note(graph, setting.dynamics)
        if type_check:
            verify(graph, setting)
    return graph


def _graph(job: Job, registry: Registry, args: Any, kwargs: Any, flat: bool) -> tuple[nir.NIRGraph, Delays]:
    """The graph of a model: as it was read, where it was; else from a run."""
    sketch = sketch_of(job.model)
    if sketch is not None and type(job.model) not in registry.user:
        graph = registry.graph(job.model, sketch)
        return unnested(graph) if flat else graph, Delays()
    given = (args,) if isinstance(args, Tensor) else tuple(args or ())
    trace = guessed_run(job) if args is None and not kwargs else run(job, Example(given, dict(kwargs or {})))
    graph, delays = assemble(trace, flatten=flat)
    note_order(graph)
    return graph, delays


def _fitting(graph: nir.NIRGraph, delays: Delays, setting: Setting, *, free: bool) -> Setting:
    """The rules under which a graph's cycles carry what they do in the model.

    Raises:
        NoMeaningError: there are none, or the caller wants others.
    """
    rules = setting.dynamics
    other = rules.changed(feedback="target" if rules.feedback == "source" else "source")
    problem = delays.fit(graph, rules.feedback)
    if not problem:
        return setting
    if delays.fit(graph, other.feedback):
        raise NoMeaningError(
            f"{problem}. In NIR only what comes back to a node is a step old, and all else is of this step. Feed back "
            "the output of a neuron, or map the module that keeps the value to a neuron"
        )
    if not free:
        raise NoMeaningError(
            f"{problem} under feedback={rules.feedback!r}, since a layer's constant acts at another step; it fits "
            f"dynamics=Dynamics(..., feedback={other.feedback!r})"
        )
    return replace(setting, dynamics=other)


def own_dynamics(model: nn.Module) -> str | Dynamics:
    """The rules of the neurons in a model, this package's or a framework's.

    Without neurons, those of its networks with delays or cycles; without these too, NIR's.

    Raises:
        DynamicsError: they differ.
    """
    found: dict[str | Dynamics, None] = dict.fromkeys(presets_in(model))
    found |= {module.dynamics: None for module in model.modules() if isinstance(module, Neuron | Threshold)}
    if not found:
        networks = ((module, sketch_of(module)) for module in model.modules())
        found = {sketch.dynamics: None for module, sketch in networks if sketch is not None and keeps_values(module)}
    if len(found) > 1:
        raise DynamicsError("the model has neurons of different dynamics; say which the graph is for: dynamics=...")
    return next(iter(found), "nir")
