"""The class of the modules that `from_nir` makes: calls with or without a state, and whole series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nir_bridge.calls import admit, batch_of, check_batch, check_state
from nir_bridge.compiled import Compiled
from nir_bridge.drawing import read_network
from nir_bridge.flattening import Path
from nir_bridge.plan import Plan, Port
from nir_bridge.primitives.delay import Delay
from nir_bridge.primitives.neuron import Neuron
from nir_bridge.sequence import COMPILED, Recorded, run_series
from nir_bridge.state import State, nested
from nir_bridge.written import source_tree
from unflatten.assemble import call_inside, is_inside_call
from unflatten.modules import UnflattenedModule
from unflatten.render import register
from unflatten.source import Tree

PLAN = "@nir"
_NOT_COPIED = frozenset({COMPILED, "_compiled_call_impl"})


class NIRModule(UnflattenedModule):
    """A graph, or a group of its nodes, as a module: `y, state = net(x, state)` is one time step.

    A group without neurons inside takes and returns no state; the whole network always does.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the names come from the graph

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One step.

        Args:
            *args: the inputs, in the order of the model that `to_nir` wrote them for, else in the alphabetical order
                of the names of their nodes; then the state.
            **kwargs: inputs by the names of their nodes, and `state`.

        Returns:
            The output, and the new state. Several outputs are a dict by the names of their nodes.

        Raises:
            CallError: inputs are missing, too many, or no tensors.
            ShapeError: an input has not the shape of its node.
            StateError: the state is not one of this network.
        """
        plan: Plan = self.__dict__[PLAN]
        if plan.network is None and not kwargs and is_inside_call():
            if self._compiled_call_impl is not None:
                return super().__call__(*args)
            return self._call_impl(*args)  # type: ignore[no-untyped-call]
        if len(args) == 2 and not kwargs and isinstance(args[1], State) and args[1].follows(plan, args[0]):
            result = call_inside(self, *args)  # the step after a step: all was looked at
            args[1].pass_on(result[1])
            return result
        inputs, state = admit(plan, args, kwargs)
        if not plan.stateful:
            return super().__call__(*inputs)
        batch = batch_of(plan, inputs)
        if state is None:
            state = self.initial_state(batch or (), inputs[0] if inputs else None)
        elif not torch.compiler.is_compiling():
            check_state(self, state, batch)
        if plan.one_batch_axis and batch is not None and len(batch) > 1:
            return self._in_one_batch(inputs, state, batch)
        result = super().__call__(*inputs, state)
        return self._marked(plan, result, inputs[0]) if len(inputs) == 1 and batch is not None else result

    @staticmethod
    def _marked(plan: Plan, result: Any, x: Tensor) -> Any:
        """A result whose state knows what it is for, so that the next step need not look at it: it can't change."""
        if not torch.compiler.is_compiling():
            result[1].mark(plan, x)
        return result

    def _in_one_batch(self, inputs: list[Tensor], state: State, batch: tuple[int, ...]) -> Any:
        """A step of a network with modules that take one batch axis, on several."""
        size = len(batch)
        flat = [value.reshape(-1, *value.shape[size:]) for value in inputs]
        folded = state.map(lambda tensor: tensor.reshape(-1, *tensor.shape[size:]))
        y, state = super().__call__(*flat, folded)

        def unfold(tensor: Tensor) -> Tensor:
            return tensor.reshape(*batch, *tensor.shape[1:])

        ys = {name: unfold(value) for name, value in y.items()} if isinstance(y, dict) else unfold(y)
        return ys, state.map(unfold)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles single steps, and `run`, as `torch.compile` does with these options.

        Runs are compiled for a number of steps that suits the first series, 16 to 32, or 8 to 16 with gradients, which
        are repeated, so that a series of any other length needs no other compilation. Shorter ones are run as they are.
        """
        super().compile(*args, **kwargs)
        self.__dict__[COMPILED] = Compiled(kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        made, arguments, held = super().__reduce_ex__(protocol)[:3]
        return made, arguments, {name: value for name, value in held.items() if name not in _NOT_COPIED}

    def run(
        self,
        xs: Any,
        state: State | None = None,
        *,
        time_dim: int = 0,
        record: Sequence[str] = (),
        layerwise: bool = True,
    ) -> tuple[Any, State] | tuple[Any, State, Recorded]:
        """A whole series.

        Args:
            xs: the inputs with a time axis; a tuple or a dict of them where there are several inputs.
            state: where to start; None for the start.
            time_dim: the time axis, of inputs and outputs.
            record: paths of modules whose outputs to return too, and `path:v` or `path:i` for their state.
            layerwise: run each node for all steps before the next, where there is no cycle. Results equal those of
                single steps up to the rounding of batched matrix products; False takes single steps.

        Returns:
            Outputs and the new state; with `record`, a mapping from each path to its series, too.

        Raises:
            CallError: inputs are missing or no tensors, or the series is empty.
            RecordError: nothing has such a path.
        """
        asked: Any = record
        names = tuple(asked) if isinstance(asked, Iterable) and not isinstance(asked, str | bytes) else (asked,)
        ys, state, recorded = run_series(self, xs, state, time_dim, names, layerwise)
        return (ys, state, recorded) if names else (ys, state)

    def source_tree(self) -> Tree:
        """What `unflatten.source.write` writes: one step, for any number of inputs along one batch axis."""
        return source_tree(self, self.__dict__[PLAN])

    def initial_state(self, batch_shape: Sequence[int] = (), like: Tensor | None = None) -> State:
        """The state to start from.

        Args:
            batch_shape: the batch axes.
            like: gives device and type to what has no parameters around it.
        """
        plan: Plan = self.__dict__[PLAN]
        check_batch(batch_shape)
        parts: dict[Path, Any] = {part.path: self._start(part.path, batch_shape, like) for part in plan.parts}
        if plan.feedback:
            near = next((tensor for tensor in self.parameters() if tensor.is_floating_point()), like)
            near = torch.empty(0, device=plan.device, dtype=plan.dtype) if near is None else near
            for kept in plan.feedback:
                shape = (*batch_shape, *kept.shape)
                parts[kept.path] = near.new_zeros(shape)
        return nested(parts)

    def _start(self, path: Path, batch_shape: Sequence[int], like: Tensor | None) -> Any:
        child = child_at(self, path)
        return child.initial_state(batch_shape, like) if isinstance(child, Neuron | Delay | NIRModule) else None

    @property
    def delayed_edges(self) -> tuple[tuple[str, str], ...]:
        """The edges that carry the value of the step before, by the names of their nodes."""
        plan: Plan = self.__dict__[PLAN]
        return plan.delayed

    @property
    def input_ports(self) -> tuple[Port, ...]:
        """What a step takes before the state: names and shapes, in the order of the arguments."""
        plan: Plan = self.__dict__[PLAN]
        return plan.ports

    @property
    def original_names(self) -> Mapping[str, str]:
        """The names of the nodes in the graph, by the paths of their modules."""
        plan: Plan = self.__dict__[PLAN]
        return {".".join(path): name for path, name in plan.originals}


def child_at(module: nn.Module, path: Path) -> nn.Module:
    """A descendant, whatever the names on the way."""
    for name in path:
        found = module._modules[name]
        if found is None:
            raise KeyError(name)
        module = found
    return module


register(NIRModule, read_network)
