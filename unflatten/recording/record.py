"""What is recorded of an export: frozen values, and the JSON that a program carries.

The JSON refers to values of the graph by number. The nodes of these values carry the number, under `custom` in
their metadata, which torch keeps through saving, copying and decomposition; inputs are found by their position
or name instead.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import fx
from torch.export import ExportedProgram

KEY = "unflatten"
"""Where in `custom` metadata records are kept."""

VERSION = 1


@dataclass(frozen=True, slots=True)
class RecordedModule:
    """One module of the model.

    Attributes:
        type: the dotted name of its class.
        text: what its `extra_repr()` said.
        attributes: its plain attributes, encoded.
        whole: whether these, its state and its children are all that it has.
        first: the first name of the module, where this is another one.
        children: the names of its children in their order, where some of them are None.
        shown: what its own `__repr__` said, where its class has one that does not list its children.
    """

    type: str
    text: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True
    first: str | None = None
    children: list[str] = field(default_factory=list)
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of one module.

    Attributes:
        path: where the module was reached.
        index: how many calls by that path came before.
        outer: the number of the call around it, -1 where it is the program's own.
        arguments: `(args, kwargs)`, encoded.
        result: what came back, encoded.
        names: the names of the positional parameters.
    """

    path: str
    index: int
    outer: int
    arguments: Any
    result: Any
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """All that is recorded of one export.

    Attributes:
        modules: the modules, by path.
        calls: the calls, in the order in which they began.
        same: for the numbers of values that an operator gave back because it had nothing to do, those of what it
            was given: decomposition drops such operators.
        inputs: for the numbers of values that are no nodes' results: `("user", position)`, `("state", name)`,
            or `("constant", value)` for sizes that turned out to be fixed.
    """

    modules: Mapping[str, RecordedModule]
    calls: tuple[RecordedCall, ...]
    inputs: Mapping[int, tuple[str, Any]]
    same: Mapping[int, int] = field(default_factory=dict)

    def dumps(self) -> str:
        """The record as JSON."""
        body = {
            "version": VERSION,
            "modules": {path: asdict(module) for path, module in self.modules.items()},
            "calls": [asdict(call) for call in self.calls],
            "same": {str(number): other for number, other in self.same.items()},
            "inputs": {str(number): list(place) for number, place in self.inputs.items()},
        }
        return json.dumps(body, separators=(",", ":"))

    @staticmethod
    def loads(text: str) -> Record | None:
        """The record that JSON tells, None where another version of this package wrote it."""
        body = json.loads(text)
        if body.get("version") != VERSION:
            return None
        return Record(
            modules={path: RecordedModule(**module) for path, module in body["modules"].items()},
            calls=tuple(RecordedCall(**{**call, "names": tuple(call["names"])}) for call in body["calls"]),
            same={int(number): other for number, other in body["same"].items()},
            inputs={int(number): (kind, place) for number, (kind, place) in body["inputs"].items()},
        )


def record_of(program: ExportedProgram) -> Record | None:
    """The record that a program carries, None for a program without."""
    custom = program.graph_module.meta.get("custom")
    text = custom.get(KEY) if isinstance(custom, Mapping) else None
    return Record.loads(text) if isinstance(text, str) else None


def numbers_of(meta: Mapping[str, Any]) -> list[int]:
    """The numbers that a node's metadata gives to its value."""
    return list(_tag(meta).get("values", ()))


def item_numbers_of(meta: Mapping[str, Any], item: Any) -> list[int]:
    """The numbers that a node's metadata gives to one of the items of its value."""
    return list(_tag(meta).get("items", {}).get(str(item), ()))


def number_value(node: fx.Node, number: int) -> None:
    """Gives the value of a node a number.

    The metadata of nodes that take a tuple apart is lost when a program is saved or decomposed, so that the node
    that computes the tuple has it too.
    """
    tag(node, values=[*numbers_of(node.meta), number])
    whole = node.args[0] if node.target is operator.getitem else None
    if isinstance(whole, fx.Node):
        item = str(node.args[1])
        items = dict(_tag(whole.meta).get("items", {}))
        tag(whole, items={**items, item: [*items.get(item, ()), number]})


def tag(node: fx.Node, **what: Any) -> None:
    """Writes into a node's metadata: the `values` that it is, or that a call handed it `through`."""
    custom = dict(node.meta.get("custom") or {})
    custom[KEY] = {**custom.get(KEY, {}), **what}
    node.meta["custom"] = custom


def is_handed_through(meta: Mapping[str, Any]) -> bool:
    """Whether a node stands for what a call returned although it had been given it."""
    return bool(_tag(meta).get("through"))


def _tag(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    custom = meta.get("custom")
    tag = custom.get(KEY) if isinstance(custom, Mapping) else None
    return tag if isinstance(tag, Mapping) else {}
