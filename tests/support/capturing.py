"""Capturing training graphs by every route that torch has."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch import Tensor, fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.functional_export import dynamo_graph_capture_for_export
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._functorch.partitioners import default_partition
from torch.export.experimental import _export_forward_backward
from torch.fx.experimental.proxy_tensor import make_fx

Args = tuple[Tensor, ...]


@contextlib.contextmanager
def _torchs_own_warnings() -> Iterator[None]:
    """Lets torch deprecate what torch itself uses while it captures (2.13)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@_torchs_own_warnings()
def joint(model: nn.Module, args: Args) -> fx.GraphModule:
    """The joint graph of AOTAutograd, with descriptors."""
    with contextlib.ExitStack() as stack:
        found = aot_export_joint_with_descriptors(stack, model, args)
        return found.graph_module


@_torchs_own_warnings()
def exported(model: nn.Module, args: Args) -> nn.Module:
    """The flat module of a program."""
    return torch.export.export(model, args, strict=True).module()


@_torchs_own_warnings()
def by_dynamo(model: nn.Module, args: Args) -> nn.Module:
    """The flat module that dynamo alone makes."""
    return dynamo_graph_capture_for_export(model)(*args)


@_torchs_own_warnings()
def compiled(model: nn.Module, args: Args) -> dict[str, fx.GraphModule]:
    """The joint, forward and backward graphs that backends of `torch.compile` get."""
    graphs: dict[str, fx.GraphModule] = {}

    def partition(module: fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> Any:
        graphs["joint"] = module
        return default_partition(module, joint_inputs, **kwargs)

    def keep(name: str) -> Callable[..., Any]:
        def compiler(module: fx.GraphModule, _args: Any) -> Any:
            graphs[name] = module
            return module.forward

        return compiler

    backend = aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward"), partition_fn=partition)
    torch._dynamo.reset()
    torch.compile(model, backend=backend, fullgraph=True)(*args).sum().backward()
    return graphs


@_torchs_own_warnings()
def traced(model: nn.Module, args: Args, *, stacks: bool = True, numbers: bool = True) -> fx.GraphModule:
    """`make_fx` of a forward and its gradients; parameters come first among the inputs, then the arguments."""
    named = dict(model.named_parameters())
    buffers = {name: value.clone() for name, value in model.named_buffers()}

    def step(params: list[Tensor], *inputs: Tensor) -> Any:
        state = {**dict(zip(named, params, strict=True)), **buffers}
        loss = torch.func.functional_call(model, state, inputs).sum()
        return [loss, *torch.autograd.grad(loss, params)]

    with contextlib.ExitStack() as stack:
        if numbers:
            stack.enter_context(fx_traceback.preserve_node_meta())
            stack.enter_context(torch.compiler._non_strict_tracing_context())
            stack.enter_context(torch.compiler._patch_engine_backward())
        step._orig_mod = model  # type: ignore[attr-defined]
        trace = make_fx(step, record_module_stack=stacks)
        return trace(list(named.values()), *args)


@_torchs_own_warnings()
def forward_backward(model: nn.Module, args: Args) -> torch.export.ExportedProgram:
    return _export_forward_backward(torch.export.export(model, args))
