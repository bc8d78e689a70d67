"""Assertions about exported programs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from unflatten import _torch
from unflatten.build import unflatten
from unflatten.errors import DifferenceError, ProgramError
from unflatten.testing.comparing import Difference
from unflatten.testing.failing import check
from unflatten.testing.orders import Order, nasty_orders
from unflatten.testing.running import Args, Kwargs
from unflatten.testing.same import assert_same_hierarchy, assert_same_outputs, hierarchy_differences


@contextmanager
def assert_unchanged(program: ExportedProgram) -> Iterator[ExportedProgram]:
    """What is done in the block leaves a program as it is: its graph, metadata, signature, and every tensor.

    Args:
        program: the program; the block gets it as well.

    Raises:
        DifferenceError: the block changed it.

    Example:
        >>> from unflatten import unflatten
        >>> program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
        >>> with assert_unchanged(program):
        ...     _ = unflatten(program)
    """
    before = _picture(program)
    yield program
    after = _picture(program)
    found = []
    for where, want in before.items():
        if want != after.get(where):
            node = where[5:] if where.startswith("node ") else ""
            found.append(Difference(where, _short(want), _short(after.get(where)), node=node))
    found += [Difference(where, "nothing", _short(after[where])) for where in after if where not in before]
    check(found, "the program was changed", "assert_unchanged", program=program)


def _picture(program: ExportedProgram) -> dict[str, Any]:
    """All that a program consists of, as text and numbers."""
    found: dict[str, Any] = {"signature": repr(program.graph_signature), "ranges": repr(program.range_constraints)}
    found["order"] = [node.name for node in program.graph.nodes]
    found["code"] = program.graph_module.code
    for name, module in program.graph_module.named_modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.nodes:
                found[f"node {name}{'.' if name else ''}{node.name}"] = _of_node(node)
    for kind, held in (("state", program.state_dict), ("constant", program.constants)):
        for fqn, value in held.items():
            found[f"{kind} {fqn}"] = _of_value(value)
    found["state order"] = list(program.state_dict)
    return found


def _of_node(node: fx.Node) -> tuple[Any, ...]:
    meta = {key: repr(value) for key, value in node.meta.items() if key != "val"}
    return (node.op, str(node.target), repr(node.args), repr(node.kwargs), meta, id(node.meta.get("val")))


def _of_value(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, torch.Tensor):
        return (id(value),)
    marks = (value.requires_grad, value.grad is None, sorted(vars(value)))
    try:
        content = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    except (RuntimeError, TypeError):
        content = repr(value).encode()
    return (id(value), value.dtype, value.shape, value.stride(), marks, content)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def reordered(program: ExportedProgram, order: Order) -> ExportedProgram:
    """A copy of a program with its operators in another order; state is shared.

    Raises:
        GraphOrderError: the program can't run in this order.
    """
    twin = copy.copy(program)
    _torch.set_graph_module(twin, copy.deepcopy(program.graph_module))
    order.apply(twin)
    return twin


def assert_order_invariant(
    program: ExportedProgram,
    args: Args | None = None,
    kwargs: Kwargs | None = None,
    *,
    orders: Iterable[Order] | None = None,
) -> None:
    """Unflattening does not depend on the order of operators: same modules, code, calls, results and writes.

    Args:
        program: the program; it is left as it is.
        args: what to call the results with; the program's own example inputs unless given.
        kwargs: likewise, by keyword.
        orders: the orders to try; the nastiest unless given.

    Raises:
        DifferenceError: another order gives another result.

    Example:
        >>> assert_order_invariant(torch.export.export(nn.Bilinear(2, 2, 2), (torch.ones(1, 2), torch.ones(1, 2))))
    """
    args, kwargs = inputs_of(program, args, kwargs)
    expected = unflatten(program)
    for order in nasty_orders(program.graph) if orders is None else orders:
        given = unflatten(reordered(program, order))
        try:
            assert_same_hierarchy(expected, given)
            assert_same_outputs(copy.deepcopy(expected), given, args, kwargs, times=1)
        except DifferenceError as error:
            found = [item for item in error.differences if isinstance(item, Difference)]
            things = {"program": program, "args": args, "kwargs": dict(kwargs)}
            claim = f"the result depends on the order of operators; in the order {order.kind!r}, {list(order.names)},"
            check(found, claim, "assert_order_invariant", **things)
            raise


def inputs_of(program: ExportedProgram, args: Args | None, kwargs: Kwargs | None) -> tuple[Args, Kwargs]:
    """The given arguments, or else the program's example inputs.

    Raises:
        ProgramError: there are none.
    """
    if args is not None or kwargs is not None:
        return args or (), kwargs or {}
    if program.example_inputs is None:
        raise ProgramError("the program has no example inputs: give args")
    given, named = program.example_inputs
    return given, named


def assert_reexport_fixpoint(module: nn.Module, args: Args, kwargs: Kwargs | None = None, **options: Any) -> None:
    """Exporting an unflattened module and unflattening it again settles: the same code, modules, results and writes.

    The first export may change the order of calls, and which name of a shared module is used. The second may number
    the calls of a module anew, where the first left out those that do nothing. The third changes nothing more.

    Args:
        module: what `unflatten` gave.
        args: what to export it with.
        kwargs: likewise, by keyword.
        options: whatever else `torch.export.export` takes.

    Raises:
        DifferenceError: exporting again gives something else.

    Example:
        >>> program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
        >>> assert_reexport_fixpoint(unflatten(program), (torch.ones(1, 2),))
    """
    again = _exported(module, args, kwargs, options)
    settled = _exported(again, args, kwargs, options)
    found = hierarchy_differences(again, settled)
    if found and all(item.where.startswith("the calls") for item in found):
        again, settled = settled, _exported(settled, args, kwargs, options)
    try:
        assert_same_hierarchy(again, settled)
        assert_same_outputs(copy.deepcopy(module), settled, args, kwargs)
    except DifferenceError as error:
        found = [item for item in error.differences if isinstance(item, Difference)]
        things = {"module": module, "args": args, "kwargs": dict(kwargs or {}), **options}
        check(found, "exporting again gives something else", "assert_reexport_fixpoint", **things)
        raise


def _exported(module: nn.Module, args: Args, kwargs: Kwargs | None, options: dict[str, Any]) -> nn.Module:
    given = copy.deepcopy((args, dict(kwargs or {})))
    return unflatten(torch.export.export(copy.deepcopy(module), given[0], given[1] or None, **options))
