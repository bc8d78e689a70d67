"""Finds which Python spelling of each ATen overload dispatches to that same overload, and writes the table.

    python tools/spell_operators.py unflatten/code/spelling_table.py

Every operator of torch's own test database is called on sample inputs under pre-dispatch tracing, which shows
the overloads that it reaches and their arguments. A spelling is kept for an overload if, for all samples, a call
with those arguments is traced to the same overload with the same arguments. Run it when a new release of torch
is adopted; `tests/unit/test_spelling.py` checks the result on fewer samples.
"""

from __future__ import annotations

import operator
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

Sample = tuple[tuple[Any, ...], dict[str, Any]]

INFIX = {
    "add.Tensor": "+",
    "sub.Tensor": "-",
    "mul.Tensor": "*",
    "div.Tensor": "/",
    "matmul.default": "@",
    "pow.Tensor_Scalar": "**",
    "pow.Tensor_Tensor": "**",
    "eq.Tensor": "==",
    "eq.Scalar": "==",
    "ne.Tensor": "!=",
    "ne.Scalar": "!=",
    "lt.Tensor": "<",
    "lt.Scalar": "<",
    "le.Tensor": "<=",
    "le.Scalar": "<=",
    "gt.Tensor": ">",
    "gt.Scalar": ">",
    "ge.Tensor": ">=",
    "ge.Scalar": ">=",
    "__and__.Tensor": "&",
    "__or__.Tensor": "|",
    "__xor__.Tensor": "^",
    "remainder.Tensor": "%",
    "remainder.Scalar": "%",
}
PREFIX = {"neg.default": "-", "bitwise_not.default": "~"}
SIGNS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "@": operator.matmul,
    "**": operator.pow, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "%": operator.mod,
}  # fmt: skip
LOGICAL = (operator.and_, operator.or_, operator.xor)
UNARY: dict[str, Callable[..., Any]] = {"-": operator.neg, "~": operator.invert}
METHODS = frozenset(
    """
    view reshape transpose permute unsqueeze squeeze expand expand_as contiguous to flatten unflatten chunk split
    split_with_sizes unbind repeat masked_fill view_as reshape_as type_as new_zeros new_ones new_full new_empty
    unfold narrow index_select gather scatter detach clone sum mean amax amin argmax argmin any all cumsum cumprod
    var std item numel t movedim roll flip topk sort max min prod tril triu clamp
    """.split()  # noqa: SIM905
)


def trace(function: Callable[..., Any], tensors: list[torch.Tensor]) -> list[fx.Node]:
    """The overloads that a function reaches."""
    graph = make_fx(function, pre_dispatch=True, tracing_mode="real")(*tensors).graph
    return [node for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def samples_of(database: Any, limit: int) -> Iterator[tuple[Any, Sample]]:
    """Overloads with arguments that real calls gave them."""
    for info in database:
        dtype = torch.float32 if torch.float32 in info.dtypes else next(iter(info.dtypes), torch.float32)
        try:
            inputs = list(info.sample_inputs("cpu", dtype, requires_grad=False))[:limit]
        except Exception:  # noqa: BLE001 - some need libraries that are not there
            continue
        for sample in inputs:
            yield from _reached(info.op, ((sample.input, *sample.args), sample.kwargs))


def _reached(function: Callable[..., Any], sample: Sample) -> Iterator[tuple[Any, Sample]]:
    flat, spec = pytree.tree_flatten(sample)
    places = [at for at, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        args, kwargs = pytree.tree_unflatten(_replaced(flat, places, tensors), spec)
        return function(*args, **kwargs)

    try:
        module = make_fx(call, pre_dispatch=True, tracing_mode="real")(*(flat[at] for at in places))
    except Exception:  # noqa: BLE001 - not traceable, so nothing to learn
        return
    env: dict[fx.Node, Any] = {}
    inputs = iter(places)
    for node in module.graph.nodes:
        try:
            if node.op == "placeholder":
                env[node] = flat[next(inputs)]
            elif node.op == "get_attr":
                env[node] = getattr(module, str(node.target))
            elif node.op == "call_function":
                args, kwargs = fx.map_arg((node.args, node.kwargs), env.__getitem__)
                if isinstance(node.target, torch._ops.OpOverload):
                    yield node.target, (args, dict(kwargs))
                env[node] = node.target(*args, **kwargs)
        except Exception:  # noqa: BLE001 - what comes after it can't be computed
            return


def _replaced(flat: list[Any], places: list[int], tensors: tuple[torch.Tensor, ...]) -> list[Any]:
    replaced = list(flat)
    for at, tensor in zip(places, tensors, strict=True):
        replaced[at] = tensor
    return replaced


def spellings(overload: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The ways to write an overload, the best first."""
    name = overload._opname
    method = (f".{name}", lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs))
    if hasattr(torch.Tensor, name) and (name in METHODS or name.endswith("_")):
        yield method
    if isinstance(getattr(torch, name, None), types.BuiltinFunctionType):
        yield f"torch.{name}", getattr(torch, name)
    for prefix in ("linalg", "special", "fft"):
        short = name.removeprefix(f"{prefix}_")
        if short != name and hasattr(getattr(torch, prefix), short):
            yield f"torch.{prefix}.{short}", getattr(getattr(torch, prefix), short)
    if callable(getattr(F, name, None)):
        yield f"F.{name}", getattr(F, name)
    if hasattr(torch.Tensor, name):
        yield method


def dispatches_alike(overload: Any, spelled: Callable[..., Any], sample: Sample) -> bool:
    """Whether both are traced to the same overloads with the same arguments."""
    flat, spec = pytree.tree_flatten(sample)
    places = [at for at, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]

    def run(function: Callable[..., Any]) -> list[tuple[Any, Any]]:
        def call(*tensors: torch.Tensor) -> Any:
            args, kwargs = pytree.tree_unflatten(_replaced(flat, places, tensors), spec)
            return function(*args, **kwargs)

        nodes = trace(call, [flat[at].detach().clone() for at in places])
        return [
            (node.target, [_comparable(leaf) for leaf in pytree.tree_leaves((node.args, node.kwargs))])
            for node in nodes
        ]

    return run(overload) == run(spelled)


def _comparable(leaf: Any) -> Any:
    return str(leaf) if isinstance(leaf, fx.Node | float) else (type(leaf), leaf)


def collect(limit: int, every: int = 1) -> dict[Any, list[Sample]]:
    """Samples of every overload that torch's test database (of each `every`th entry) and the modules below reach."""
    from torch.testing._internal.common_methods_invocations import op_db

    seen: dict[Any, list[Sample]] = {}
    for overload, sample in (*samples_of(op_db[::every], limit), *module_samples()):
        if overload.namespace == "aten" and len(seen.setdefault(overload, [])) < limit:
            seen[overload].append(sample)
    for overload, samples in list(seen.items()):
        written = in_place(overload)
        if written is not None:
            seen.setdefault(written, []).extend(sample for sample in samples if runs(written, sample))
    return dict(sorted((item for item in seen.items() if item[1]), key=lambda item: str(item[0])))


def in_place(overload: Any) -> Any:
    """The overload that writes its first argument and computes the same, or None."""
    packet = getattr(torch.ops.aten, f"{overload._opname}_", None)
    return getattr(packet, overload._overloadname, None)


def runs(overload: Any, sample: Sample) -> bool:
    """Whether an overload takes these arguments."""
    try:
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, sample)
        overload(*args, **kwargs)
    except Exception:  # noqa: BLE001 - whatever it raises, it does not take them
        return False
    return True


def module_samples() -> Iterator[tuple[Any, Sample]]:
    """What recurrent modules, copies and binary operators with numbers reach, which the database lacks."""
    x, h = torch.randn(2, 3, 4), torch.randn(1, 3, 5)
    cells = [torch.nn.RNNCell(4, 5), torch.nn.GRUCell(4, 5), torch.nn.RNNCell(4, 5, nonlinearity="relu")]
    for recurrent in (torch.nn.RNN(4, 5), torch.nn.GRU(4, 5), torch.nn.RNN(4, 5, nonlinearity="relu")):
        yield from _reached(recurrent, ((x, h), {}))
    yield from _reached(torch.nn.LSTM(4, 5), ((x, (h, h)), {}))
    yield from _reached(torch.nn.LSTMCell(4, 5), ((x[0], (h[0], h[0])), {}))
    for cell in cells:
        yield from _reached(cell, ((x[0], h[0]), {}))
    yield torch.ops.aten.copy_.default, ((x, x + 1), {})
    for bounds in ((0, 1), (0,), (None, 1), (0.5, 2.5)):
        yield torch.ops.aten.clamp.default, ((x, *bounds), {})
    for sign in SIGNS.values():
        yield from _reached(sign, ((x > 0, x > 1) if sign in LOGICAL else (x, 2), {}))


def find_tables(limit: int) -> tuple[dict[str, str], dict[str, str]]:
    """The sign of each overload that has one, and the best function or method of each that has one."""
    signs, table = {}, {}
    for overload, samples in collect(limit).items():
        name = str(overload).removeprefix("aten.")
        sign = (INFIX | PREFIX).get(name)
        plain: list[Sample] = [
            (args, {}) for args, kwargs in samples if len(args) == (1 if name in PREFIX else 2) and not kwargs
        ]
        function = UNARY.get(sign or "") if name in PREFIX else SIGNS.get(sign or "")
        if sign and function and plain and all_alike(overload, function, plain):
            signs[name] = sign
        for text, spelled in spellings(overload):
            public = not text.strip(".").rpartition(".")[2].startswith("_")
            if public and all_alike(overload, spelled, samples):
                table[name] = text
                break
    return signs, table


def all_alike(overload: Any, spelled: Callable[..., Any], samples: list[Sample]) -> bool:
    """Whether a spelling dispatches alike for all samples; one that fails does not."""
    try:
        return all(dispatches_alike(overload, spelled, sample) for sample in samples)
    except Exception:  # noqa: BLE001 - whatever a wrong spelling raises
        return False


def main() -> None:
    """Writes the table to the file that the command line names."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    signs, table = find_tables(limit=16)
    release = torch.__version__.split("+")[0]
    text = (
        '"""Spellings of ATen overloads that dispatch to those same overloads.\n\n'
        f'Written by tools/spell_operators.py with torch {release}; not edited by hand.\n"""\n\n'
        f"SIGNS: dict[str, str] = {_display(signs)}\n"
        '"""Operators of Python, for calls with plain arguments."""\n\n'
        f"SPELLINGS: dict[str, str] = {_display(table)}\n"
        '"""Functions, and methods of the first argument."""\n'
    )
    Path(sys.argv[1]).write_text(text)
    print(f"{len(signs)} signs, {len(table)} spellings")


def _display(table: dict[str, str]) -> str:
    lines = "".join(f'    "{name}": "{text}",\n' for name, text in table.items())
    return f"{{\n{lines}}}"


if __name__ == "__main__":
    main()
