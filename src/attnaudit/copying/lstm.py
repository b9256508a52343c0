"""An LSTM over symbols, forwards and backwards through time, without a graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attnaudit.copying import gates
from attnaudit.copying.workspace import Workspace

_TOGETHER = 8  # steps in time whose part of the gradient of the weights is one product


@dataclass(frozen=True)
class Pass:
    """What one pass keeps for the way back; ``states`` and ``cells`` begin with those that it started from."""

    symbols: Int64[Tensor, "T B"]
    gates: Float[Tensor, "T B G"]
    states: Float[Tensor, "T+1 B H"]
    cells: Float[Tensor, "T+1 B H"]
    squashed: Float[Tensor, "T B H"]


@dataclass(frozen=True)
class Gradient:
    """Of the recurrent weights, of the table of the input side, and of the state and cell that a pass started from."""

    weight: Float[Tensor, "G H"]
    table: Float[Tensor, "V G"]
    state: Float[Tensor, "B H"]
    cell: Float[Tensor, "B H"]


Start = tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]


def lstm(
    room: Workspace, name: str, table: Float[Tensor, "V G"], weight: Float[Tensor, "G H"], symbols: Int64[Tensor, "T B"],
    start: Start | None = None,
) -> Pass:  # fmt: skip
    """Read ``symbols`` from the first to the last; ``table`` is ``W_ih x + b`` of every symbol. Starts from zeros where nothing is given.

    What it gives lies in the ``room`` under its ``name``, until the next pass of that name.
    """
    (length, batch), size = symbols.shape, weight.shape[1]
    states, cells = (room(f"{name} {part}", length + 1, batch, size) for part in ("states", "cells"))
    squashed, activated = room(f"{name} squashed", length, batch, size), room(f"{name} gates", length, batch, 4 * size)
    for first, given in zip((states[0], cells[0]), start or (torch.zeros(()), torch.zeros(())), strict=True):
        first.copy_(given)
    product = room("recurrent", batch, 4 * size)
    fixed = gates.native(product, table, symbols, activated, cells, squashed, states)
    for t, last in enumerate(states[:-1].unbind(0)):
        torch.mm(last, weight.t(), out=product)
        gates.forward(t, *fixed)
    return Pass(symbols, activated, states, cells, squashed)


def lstm_backward(
    room: Workspace, made: Pass, weight: Float[Tensor, "G H"], d_states: Float[Tensor, "T B H"], table_rows: int, last: Start | None = None
) -> Gradient:
    """The gradient, given that of the states, and of the ``last`` state and cell besides where something else reads them."""
    length, batch, size = made.squashed.shape
    d_table, d_weight = weight.new_zeros(table_rows, 4 * size), weight.new_zeros(size, 4 * size)
    later, d_cell = (part.clone() for part in last) if last else (weight.new_zeros(batch, size) for _ in range(2))
    d_gates = room("gradient of gates", _TOGETHER, batch, 4 * size)
    fixed = gates.native(later, d_cell, d_states, made.gates, made.cells, made.squashed, made.symbols, d_table)
    at = [(place, *gates.native(place)) for place in d_gates.unbind(0)]
    for stop in range(length, 0, -_TOGETHER):
        first = max(stop - _TOGETHER, 0)
        for t in reversed(range(first, stop)):
            place, same = at[t - first]
            gates.backward(t, same, *fixed)
            torch.mm(place, weight, out=later)
        d_weight.addmm_(made.states[first:stop].flatten(0, 1).t(), d_gates[: stop - first].flatten(0, 1))
    return Gradient(d_weight.t(), d_table, later, d_cell)
