"""Recurrent layers and their cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from unflatten.leaves.leaf import Leaf, Operator, Proposal
from unflatten.leaves.registry import register

_LAYERS: dict[str, type[nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN, "rnn_relu": nn.RNN}
_CELLS: dict[str, type[nn.Module]] = {
    "lstm_cell": nn.LSTMCell,
    "gru_cell": nn.GRUCell,
    "rnn_tanh_cell": nn.RNNCell,
    "rnn_relu_cell": nn.RNNCell,
}
_GATES: dict[type[nn.Module], int] = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1, nn.LSTMCell: 4, nn.GRUCell: 3, nn.RNNCell: 1}


def _layer(leaf: Leaf, cls: type[nn.Module]) -> Iterator[Proposal]:
    found = next((found for found in leaf.operators() if _LAYERS.get(found.name) is cls), None)
    if found is None or "weight_ih_l0" not in leaf.state or "batch_first" not in found.arguments:
        return
    gates, size = leaf.state["weight_ih_l0"].shape
    projected = leaf.state.get("weight_hr_l0")
    kwargs: dict[str, Any] = {
        "input_size": size,
        "hidden_size": gates // _GATES[cls],
        "num_layers": found["num_layers"],
        "bias": found["has_biases"],
        "dropout": found["dropout"],
        "bidirectional": found["bidirectional"],
        **({"proj_size": projected.shape[0]} if projected else {}),
        **({"nonlinearity": found.name.removeprefix("rnn_")} if cls is nn.RNN else {}),
    }
    # What comes without a batch was given one, and then it makes no difference where.
    for batch_first in (found["batch_first"], not found["batch_first"]):
        yield Proposal({**kwargs, "batch_first": batch_first}, _given(leaf, found))


def _given(leaf: Leaf, found: Operator) -> tuple[Any, ...]:
    hidden = found["hx"]
    several = isinstance(hidden, tuple | list)
    states = tuple(leaf.origin(value) for value in (hidden if several else [hidden]))
    given = leaf.origin(found["input"])
    if None in states:
        return (given,)
    return (given, states if several else states[0])


def _cell(leaf: Leaf, cls: type[nn.Module]) -> Iterator[Proposal]:
    found = next((found for found in leaf.operators() if _CELLS.get(found.name) is cls), None)
    if found is None or "weight_ih" not in leaf.state:
        return
    gates, size = leaf.state["weight_ih"].shape
    kwargs: dict[str, Any] = {"input_size": size, "hidden_size": gates // _GATES[cls], "bias": "bias_ih" in leaf.state}
    if cls is nn.RNNCell:
        kwargs["nonlinearity"] = found.name.split("_")[1]
    yield Proposal(kwargs, _given(leaf, found))


for _name, _layer_class in _LAYERS.items():
    register(_layer_class, _layer, [_name])
for _name, _cell_class in _CELLS.items():
    register(_cell_class, _cell, [_name])
