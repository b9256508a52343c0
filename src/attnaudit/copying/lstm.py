"""An LSTM over symbols, forwards and backwards through time, without a graph; its steps in time compiled for float32.

The input side is a row of a table, ``W x + b`` of the symbol at hand, so that no product is needed for it, and its gradient is added to the
same row of a second table. The order of the gates is torch's: i, f, g, o. In other precisions, and on other devices, torch does the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attnaudit.core.kernels import kernel

Array = Any  # a tensor, or the same memory as numpy sees it
_TOGETHER = 8  # steps in time whose part of the gradient of the weights is one product

# tanh u = u P(u²) / Q(u²), the seventh convergent of Lambert's continued fraction u / (1 + u² / (3 + u² / (5 + …))); so tanh 2u has an
# error of 2e-7 up to |u| = 4.6, where it is one in single precision.
_P = tuple(np.float32(p / 135135) for p in (135135, 17325, 378, 1))
_Q = tuple(np.float32(q / 135135) for q in (135135, 62370, 3150, 28))
_P0, _P1, _P2, _P3 = _P
_Q0, _Q1, _Q2, _Q3 = _Q
_QUARTER, _HALF, _ONE, _TWO, _FAR = map(np.float32, (0.25, 0.5, 1.0, 2.0, 4.6))
_FAST: dict[str, Any] = {"fastmath": {"contract"}}


class Workspace:
    """Tensors by name, each made when it is first asked for and the same ever after; what they hold is what was last written there.

    Large new memory is cleared by the system, page by page, which takes as long as the arithmetic. One thread uses a workspace at a time.
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self._dtype, self._held = dtype, dict[tuple[str, tuple[int, ...]], Tensor]()

    def __call__(self, name: str, *shape: int) -> Tensor:
        """The tensor ``name`` of this shape, its content whatever it may be."""
        if (name, shape) not in self._held:
            self._held[name, shape] = torch.empty(shape, dtype=self._dtype)
        return self._held[name, shape]


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
    workspace: Workspace,
    name: str,
    table: Float[Tensor, "V G"],
    weight: Float[Tensor, "G H"],
    symbols: Int64[Tensor, "T B"],
    start: Start | None = None,
) -> Pass:
    """Read ``symbols`` from the first to the last; ``table`` is ``W_ih x + b`` of every symbol. Starts from zeros where nothing is given.

    What it gives lies in the ``workspace`` under its ``name``, until the next pass of that name.
    """
    (length, batch), size = symbols.shape, weight.shape[1]
    states, cells = (
        workspace(f"{name} {part}", length + 1, batch, size) for part in ("states", "cells")
    )
    squashed, activated = (
        workspace(f"{name} squashed", length, batch, size),
        workspace(f"{name} gates", length, batch, 4 * size),
    )
    for first, given in zip(
        (states[0], cells[0]), start or (torch.zeros(()), torch.zeros(())), strict=True
    ):
        first.copy_(given)
    product = workspace("recurrent", batch, 4 * size)
    fixed = native(product, table, symbols, activated, cells, squashed, states)
    for t, last in enumerate(states[:-1].unbind(0)):
        torch.mm(last, weight.t(), out=product)
        step_forward(t, *fixed)
    return Pass(symbols, activated, states, cells, squashed)


def lstm_backward(
    workspace: Workspace,
    made: Pass,
    weight: Float[Tensor, "G H"],
    d_states: Float[Tensor, "T B H"],
    table_rows: int,
    last: Start | None = None,
) -> Gradient:
    """The gradient, given that of the states, and of the ``last`` state and cell besides where something else reads them."""
    length, batch, size = made.squashed.shape
    d_table, d_weight = weight.new_zeros(table_rows, 4 * size), weight.new_zeros(size, 4 * size)
    later, d_cell = (
        (part.clone() for part in last)
        if last
        else (weight.new_zeros(batch, size) for _ in range(2))
    )
    d_gates = workspace("gradient of gates", _TOGETHER, batch, 4 * size)
    fixed = native(
        later, d_cell, d_states, made.gates, made.cells, made.squashed, made.symbols, d_table
    )
    at = [(place, *native(place)) for place in d_gates.unbind(0)]
    for stop in range(length, 0, -_TOGETHER):
        first = max(stop - _TOGETHER, 0)
        for t in reversed(range(first, stop)):
            place, same = at[t - first]
            step_backward(t, same, *fixed)
            torch.mm(place, weight, out=later)
        d_weight.addmm_(
            made.states[first:stop].flatten(0, 1).t(), d_gates[: stop - first].flatten(0, 1)
        )
    return Gradient(d_weight.t(), d_table, later, d_cell)


def native(*tensors: Tensor) -> tuple[Array, ...]:
    """The tensors as the steps in time take them: what is compiled reads numpy's view of a tensor, which takes long to make."""
    compiled = all(
        tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.int64)
        for tensor in tensors
    )
    return tuple(tensor.numpy() for tensor in tensors) if compiled else tensors


def step_forward(
    t: int,
    product: Array,
    table: Array,
    symbols: Array,
    gates: Array,
    cells: Array,
    squashed: Array,
    states: Array,
) -> None:
    """Step ``t``, given the ``product`` (B, 4H) of recurrent weights and last state.

    ``table`` (V, 4H) has the input side of every symbol, ``symbols`` (T, B) are read. Filled are row t of ``gates`` (T, B, 4H), which are
    the activated ones, and of ``squashed`` (T, B, H), tanh of the new cells, and row t + 1 of ``cells`` and ``states``, (T + 1, B, H).
    """
    if isinstance(product, np.ndarray):
        _forward(
            product, table, symbols[t], gates[t], cells[t], cells[t + 1], squashed[t], states[t + 1]
        )
        return
    i, f, g, o = torch.add(product, table[symbols[t]], out=gates[t]).chunk(4, dim=1)
    for gate in (i, f, o):
        gate.sigmoid_()
    torch.addcmul(f * cells[t], i, g.tanh_(), out=cells[t + 1])
    torch.tanh(cells[t + 1], out=squashed[t])
    torch.mul(o, squashed[t], out=states[t + 1])


def step_backward(
    t: int,
    d_gates: Array,
    d_later: Array,
    d_cell: Array,
    d_states: Array,
    gates: Array,
    cells: Array,
    squashed: Array,
    symbols: Array,
    d_table: Array,
) -> None:
    """Step ``t`` back: fill ``d_gates`` (B, 4H), before activation, add it to ``d_table``, make ``d_cell`` (B, H) that of the cell before.

    The gradient of the state comes in two parts: ``d_states`` (T, B, H) from what reads it, ``d_later`` (B, H) from the step after.
    """
    if isinstance(d_later, np.ndarray):
        _backward(
            d_states[t],
            d_later,
            d_cell,
            gates[t],
            cells[t],
            squashed[t],
            symbols[t],
            d_gates,
            d_table,
        )
        return
    (i, f, g, o), tanh, d = gates[t].chunk(4, dim=1), squashed[t], d_states[t] + d_later
    d_cell += d * o * (1 - tanh * tanh)
    sides = (
        d_cell * g * i * (1 - i),
        d_cell * cells[t] * f * (1 - f),
        d_cell * i * (1 - g * g),
        d * tanh * o * (1 - o),
    )
    torch.cat(sides, dim=1, out=d_gates)
    d_cell *= f
    d_table.index_add_(0, symbols[t], d_gates)


@kernel(**_FAST)
def _forward(product, table, symbols, gates, before, cell, squashed, state):
    size = cell.shape[1]
    for b in range(len(gates)):
        x, row, gate = product[b], table[symbols[b]], gates[b]
        _sigmoid(x[: 2 * size], row[: 2 * size], gate[: 2 * size])
        _tanh(x[2 * size : 3 * size], row[2 * size : 3 * size], gate[2 * size : 3 * size])
        _sigmoid(x[3 * size :], row[3 * size :], gate[3 * size :])
        _cell(gate, before[b], cell[b], squashed[b], state[b])


@kernel(inline="always", **_FAST)
def _tanh_of_double(u):
    """tanh(2u) = 2 tanh u / (1 + tanh² u)."""
    u = min(max(u, -_FAR), _FAR)
    z = u * u
    p = u * (((_P3 * z + _P2) * z + _P1) * z + _P0)
    q = ((_Q3 * z + _Q2) * z + _Q1) * z + _Q0
    return _TWO * p * q / (p * p + q * q)


# Each loop over one row is a function of its own: only so does the compiler see that it may take sixteen numbers at a time.
@kernel(**_FAST)
def _sigmoid(x, row, gate):
    for j in range(len(gate)):
        gate[j] = _HALF + _HALF * _tanh_of_double(_QUARTER * (x[j] + row[j]))


@kernel(**_FAST)
def _tanh(x, row, gate):
    for j in range(len(gate)):
        gate[j] = _tanh_of_double(_HALF * (x[j] + row[j]))


@kernel(**_FAST)
def _cell(gate, before, cell, squashed, state):
    size = len(cell)
    i, f, g, o = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
    for j in range(size):
        cell[j] = f[j] * before[j] + i[j] * g[j]
    for j in range(size):
        squashed[j] = _tanh_of_double(_HALF * cell[j])
    for j in range(size):
        state[j] = o[j] * squashed[j]


@kernel(**_FAST)
def _backward(d_state, d_later, d_cell, gates, before, squashed, symbols, d_gates, d_table):
    for b in range(len(gates)):
        _row_backward(
            d_state[b], d_later[b], d_cell[b], gates[b], before[b], squashed[b], d_gates[b]
        )
        _add(d_table[symbols[b]], d_gates[b])


@kernel(**_FAST)
def _row_backward(d_state, d_later, d_cell, gate, before, squashed, d_gate):
    size = len(d_cell)
    i, f, g, o = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
    d_i, d_f, d_g, d_o = (
        d_gate[:size],
        d_gate[size : 2 * size],
        d_gate[2 * size : 3 * size],
        d_gate[3 * size :],
    )
    for j in range(size):
        d = d_state[j] + d_later[j]
        d_o[j] = d * squashed[j] * o[j] * (_ONE - o[j])
        d_cell[j] += d * o[j] * (_ONE - squashed[j] * squashed[j])
    for j in range(size):
        d_i[j] = d_cell[j] * g[j] * i[j] * (_ONE - i[j])
        d_g[j] = d_cell[j] * i[j] * (_ONE - g[j] * g[j])
    for j in range(size):
        d_f[j] = d_cell[j] * before[j] * f[j] * (_ONE - f[j])
        d_cell[j] *= f[j]


@kernel(**_FAST)
def _add(total, row):
    for j in range(len(row)):
        total[j] += row[j]
