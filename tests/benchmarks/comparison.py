"""Compares with torch's own unflatten on published architectures: what is right, what is refused, what is lost.

    python -m tests.benchmarks.comparison [NAME ...]

Three columns: `torch.export.unflatten`, and `unflatten` of a plain program and of one from `unflatten.export`. Each
entry counts what held out of what was tried. A wrong value without any error is counted apart.
"""

from __future__ import annotations

import copy
import pickle
import random
import statistics
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.export import ExportedProgram
from torch.export import unflatten as torch_unflatten

import unflatten
from tests.benchmarks.__main__ import seconds
from tests.benchmarks.architectures import ARCHITECTURES
from tests.support.comparing import differences
from tests.support.reordering import ORDERS, reorder
from unflatten.leaves.registry import dotted, for_class
from unflatten.testing.running import Call, calls_of

Kwargs = dict[str, Any]
Unflatten = Callable[[ExportedProgram], nn.Module]
Outcome = tuple[str, bool | None]
"""What was tried, and whether it held; None: it gave a wrong value without an error."""
COLUMNS: Mapping[str, tuple[Unflatten, Callable[..., ExportedProgram]]] = {
    "torch.export.unflatten": (torch_unflatten, torch.export.export),
    "unflatten, plain program": (unflatten.unflatten, torch.export.export),
    "unflatten, recorded program": (unflatten.unflatten, unflatten.export),
}
MOVES = [*ORDERS, "few moves", "random"]


def equal(expected: Any, function: Callable[[], Any]) -> bool | None:
    """Whether a call gives a value; False if it raises or gives another structure, None for other numbers."""
    try:
        found = function()
    except Exception:  # noqa: BLE001  # whatever it is, the caller gets no result
        return False
    if not differences(expected, found):
        return True
    shapes = [[getattr(leaf, "shape", None) for leaf in pytree.tree_leaves(value)] for value in (expected, found)]
    return None if shapes[0] == shapes[1] else False


def works(function: Callable[[], Any]) -> bool:
    """Whether a call raises nothing."""
    return equal(None, lambda: function() and None) is True


@contextmanager
def exporting() -> Iterator[None]:
    """Lets models take the branches that they take in an export: those of transformers ask for it to make masks."""
    flags = {name: getattr(torch.compiler, name) for name in ("_is_compiling_flag", "_is_exporting_flag")}
    try:
        for name in flags:
            setattr(torch.compiler, name, True)
        yield
    finally:
        for name, flag in flags.items():
            setattr(torch.compiler, name, flag)


class Trial:
    """One architecture under one of the columns."""

    def __init__(self, build: Callable[[], tuple[nn.Module, Kwargs]], column: str) -> None:
        self.model, self.kwargs = build()
        self.make, self.export = COLUMNS[column]
        self.expected = self.run(copy.deepcopy(self.model))
        self.exported = self.export(copy.deepcopy(self.model), (), self.kwargs)
        with exporting(), torch.no_grad():
            self.calls = calls_of(copy.deepcopy(self.model), (), self.kwargs)

    def run(self, module: Callable[..., Any]) -> Any:
        """The result of the call."""
        torch.manual_seed(0)
        with torch.no_grad():
            return module(**copy.deepcopy(self.kwargs))

    def program(self) -> ExportedProgram:
        """A fresh program: some results change the one that they are made from."""
        return copy.deepcopy(self.exported)

    def fresh(self) -> nn.Module:
        """A fresh result."""
        return self.make(self.program())

    def outcomes(self) -> Iterator[Outcome]:
        """Everything that is tried."""
        yield "output equals eager", equal(self.expected, lambda: self.run(self.fresh()))
        yield "state dict: same keys, same order", list(self.fresh().state_dict()) == list(self.model.state_dict())
        for at, how in enumerate(MOVES):
            program = self.program()
            reorder(program, how, random.Random(at))
            yield "right after a valid reordering", equal(self.expected, lambda: self.run(self.make(program)))  # noqa: B023
        yield "deep-copies", works(lambda: copy.deepcopy(self.fresh()))
        yield "pickles", works(lambda: pickle.loads(pickle.dumps(self.fresh())))
        torch._dynamo.reset()
        compiled = torch.compile(self.fresh(), backend="eager", fullgraph=True)
        yield "compiles whole", works(lambda: self.run(compiled))
        yield "leaves the program unchanged", self.is_unchanged()
        yield from self.calls_alone()
        yield from self.swaps()
        yield from self.leaves()

    def is_unchanged(self) -> bool:
        """Whether the program is what it was, after a result was made and run."""
        program = self.program()

        def told() -> Any:
            meta = [
                (node.name, str(node.target), repr(node.meta.get("nn_module_stack"))) for node in program.graph.nodes
            ]
            return meta, {key: value.clone() for key, value in program.state_dict.items()}

        before = told()
        self.run(self.make(program))
        return not differences(before, told())

    def calls_alone(self) -> Iterator[Outcome]:
        """Every module, called as the original's was."""
        for call in self.calls:
            alone = self.fresh_cached()
            yield "module calls that take the original's arguments", equal(call.result, lambda: _call(alone, call))  # noqa: B023

    def fresh_cached(self) -> nn.Module:
        """A result for a module's call: a new one only where calls change buffers."""
        if self.model.training or not hasattr(self, "_kept"):
            self._kept = self.fresh()
        return self._kept

    def swaps(self) -> Iterator[Outcome]:
        """The original's module in the place of each: same result, and as often called."""
        counts = Counter(call.name for call in self.calls)
        for name in counts:
            yield (
                "modules that can be swapped for the original's",
                equal(
                    (self.expected, counts[name]),
                    lambda: self.swapped(name),  # noqa: B023
                ),
            )

    def swapped(self, name: str) -> tuple[Any, int]:
        """The result with the original's module in one place, and how often that was called."""
        nested, module = self.fresh(), copy.deepcopy(self.model).get_submodule(name)
        owner, _, last = name.rpartition(".")
        nested.get_submodule(owner)._modules[last] = module
        seen: list[None] = []
        module.register_forward_pre_hook(lambda *_: seen.append(None))
        return self.run(nested), len(seen)

    def leaves(self) -> Iterator[Outcome]:
        """Modules of torch.nn that come back as such."""
        nested = self.fresh()
        for name in dict.fromkeys(call.name for call in self.calls):
            kind = type(self.model.get_submodule(name))
            if for_class(dotted(kind)):
                same = works(lambda: nested.get_submodule(name))  # noqa: B023
                yield "leaves of torch.nn that come back as one", same and type(nested.get_submodule(name)) is kind


def _call(nested: nn.Module, call: Call) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        return nested.get_submodule(call.name)(*copy.deepcopy(call.args), **copy.deepcopy(call.kwargs))


def ratios(build: Callable[[], tuple[nn.Module, Kwargs]]) -> list[float]:
    """The time of a call of each result, against the original's."""
    trials = [Trial(build, column) for column in COLUMNS]
    results = [trial.fresh() for trial in trials]
    eager, *others = seconds([lambda m=m: trials[0].run(m) for m in (trials[0].model, *results)])  # type: ignore[misc]
    return [other / eager for other in others]


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or list(ARCHITECTURES)
    held: dict[str, Counter[tuple[str, str]]] = {column: Counter() for column in COLUMNS}
    times = []
    for name in wanted:
        for column in COLUMNS:
            for what, outcome in Trial(ARCHITECTURES[name], column).outcomes():
                held[column][what, "tried"] += 1
                held[column][what, "held"] += bool(outcome)
                held[column][what, "silent"] += outcome is None
        times.append(ratios(ARCHITECTURES[name]))
        print(f"{name} done", file=sys.stderr, flush=True)
    print(f"| {len(wanted)} architectures | {' | '.join(COLUMNS)} |")
    print(f"|---|{'---|' * len(COLUMNS)}")
    for what in dict.fromkeys(what for what, _ in held["unflatten, plain program"]):
        print(f"| {what} | {' | '.join(_cell(held[column], what) for column in COLUMNS)} |")
    medians = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"| time of a call, against eager | {' | '.join(f'{median:.2f} x' for median in medians)} |")


def _cell(held: Counter[tuple[str, str]], what: str) -> str:
    silent = held[what, "silent"]
    return f"{held[what, 'held']:,} of {held[what, 'tried']:,}" + (f", {silent} silently wrong" if silent else "")


if __name__ == "__main__":
    main()
