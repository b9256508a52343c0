"""The sequence-to-sequence model of one layer, its loss and the gradient of it, written out for speed on a CPU.

Encoder, attention and decoder are those of `seq2seq`, for sequences of one length, with an encoder that reads from both ends or forwards
only; the output layer is one of `output`. Written out, they differ in rounding only:

- The input side of an LSTM is a row ``W_ih x + b`` for each symbol, so that a step in time has one product, with the recurrent weights.
- Weights that are multiplied by one another, such as those of a tied output, are multiplied once a batch.
- The gradient of the recurrent weights is one product over all steps in time, after the way back.

All is time-major, ``(T, B, …)``, but attention, which is a batch of small matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from attnaudit.copying.lstm import Gradient, Pass, Start, Workspace, lstm, lstm_backward
from attnaudit.copying.output import OUTPUTS, Linear, Weights
from attnaudit.copying.presets import Kind

FORWARD, BACKWARD, DECODER = "encoder.{}_l0", "encoder.{}_l0_reverse", "decoder.{}_l0"
SIDES = {"lstm": (FORWARD,), "bilstm": (FORWARD, BACKWARD)}


@dataclass(frozen=True)
class Sizes:
    """``vocabulary`` symbols of both sides with vectors of ``embedding`` numbers; ``hidden`` is the width of states on both sides.

    ``embedding_scale`` is the standard deviation of a fresh vector's numbers; 1 is what torch's own modules draw. The ``encoder`` is one
    LSTM that reads forwards, so that no state knows what follows it, or two of half the width, one from each end (``bilstm``). Queries of
    attention have a bias with the ``output`` layer ``tanh``.
    """

    vocabulary: int
    hidden: int = 256
    embedding: int = 256
    heads: int = 1
    embedding_scale: float = 1.0
    encoder: Literal["lstm", "bilstm"] = "lstm"
    output: Kind = "tied"

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the encoder's LSTMs."""
        return SIDES[self.encoder]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every weight by its name."""
        m, e = self.hidden, self.embedding
        lstms = (*((side, m // len(self.sides)) for side in self.sides), (DECODER, m))
        recurrent = {
            name.format(part): shape
            for name, h in lstms
            for part, shape in (
                ("weight_ih", (4 * h, e)),
                ("weight_hh", (4 * h, h)),
                ("bias_ih", (4 * h,)),
                ("bias_hh", (4 * h,)),
            )
        }
        queries = {
            "attention.weight": (m, m),
            **({"attention.bias": (m,)} if self.output == "tanh" else {}),
        }
        return {
            "embedding.weight": (self.vocabulary, e),
            **recurrent,
            **queries,
            **OUTPUTS[self.output].shapes(self.vocabulary, m, e),
        }

    @property
    def count(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes().values())

    def scale(self, name: str) -> float:
        """Of a fresh weight: it is uniform up to this on both sides, as torch's modules draw it; the standard deviation of an embedding."""
        if name == "embedding.weight":
            return self.embedding_scale
        if name.startswith("encoder."):
            return (self.hidden // len(self.sides)) ** -0.5
        return OUTPUTS[self.output].inputs(name, self.hidden, self.embedding) ** -0.5


def views(sizes: Sizes, flat: Float[Tensor, " P"]) -> dict[str, Tensor]:
    """The weights by name, as views of one flat array."""
    shapes = sizes.shapes()
    parts = flat.split([math.prod(shape) for shape in shapes.values()])
    return {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


@dataclass(frozen=True)
class Forward:
    """What the model makes of a batch: states, queries, attention and the scores of all symbols. Parts of states are those of heads."""

    encoder: tuple[Pass, ...]
    decoder: Pass
    source: Float[Tensor, "B K S d"]
    queries: Float[Tensor, "B K T d"]
    alpha: Float[Tensor, "B K T S"]
    context: Float[Tensor, "T B m"]
    linear: Linear
    z: Float[Tensor, "N w"]  # of the linear part, as `Output.scores` leaves it
    logits: Float[Tensor, "T B V"]


def forward(
    sizes: Sizes,
    weights: Weights,
    workspace: Workspace,
    source: Int64[Tensor, "S B"],
    given: Int64[Tensor, "T B"],
    uniform: bool = False,
) -> Forward:
    """Read the ``source``, and write with the symbols ``given``, those before each; ``uniform`` attends to all positions alike.

    What it gives lies in the ``workspace``, until the next time.
    """
    encoder = tuple(_read(weights, workspace, side, _turned(side, source)) for side in sizes.sides)
    ordered = [
        _turned(side, read.states[1:]) for side, read in zip(sizes.sides, encoder, strict=True)
    ]
    h = torch.cat(ordered, dim=2, out=workspace("encoder", *source.shape, sizes.hidden))
    start = (
        torch.cat([read.states[-1] for read in encoder], dim=1),
        torch.cat([read.cells[-1] for read in encoder], dim=1),
    )
    decoder = _read(weights, workspace, DECODER, given, start)
    d = decoder.states[1:].flatten(0, 1)
    queries = torch.mm(
        d, weights["attention.weight"].t(), out=workspace("states", len(d), sizes.hidden)
    ).view(*given.shape, -1)
    if "attention.bias" in weights:
        queries += weights["attention.bias"]
    hs, qs = (
        _apart(workspace, "source", h, sizes.heads),
        _apart(workspace, "queries", queries, sizes.heads),
    )
    alpha = _attend(workspace, hs, qs, uniform)
    context = _together(workspace, "context", _products(workspace, alpha, hs))
    output = OUTPUTS[sizes.output]
    linear = output.linear(weights)
    z = torch.addmm(
        linear.offset, d, linear.state.t(), out=workspace("linear part", len(d), len(linear.offset))
    )
    z.addmm_(context.flatten(0, 1), linear.context.t())
    logits = output.scores(weights, z, workspace)
    return Forward(
        encoder, decoder, hs, qs, alpha, context, linear, z, logits.view(*given.shape, -1)
    )


def _turned(side: str, sequences: Shaped[Tensor, "S ..."]) -> Shaped[Tensor, "S ..."]:
    """In the order in which this side of the encoder reads, and back again."""
    return sequences.flip(0) if side == BACKWARD else sequences


def _read(
    weights: Weights,
    workspace: Workspace,
    name: str,
    symbols: Int64[Tensor, "T B"],
    start: Start | None = None,
) -> Pass:
    bias = weights[name.format("bias_ih")] + weights[name.format("bias_hh")]
    table = torch.addmm(bias, weights["embedding.weight"], weights[name.format("weight_ih")].t())
    return lstm(workspace, name, table, weights[name.format("weight_hh")], symbols, start)


def _attend(
    workspace: Workspace,
    source: Float[Tensor, "B K S d"],
    queries: Float[Tensor, "B K T d"],
    uniform: bool,
) -> Float[Tensor, "B K T S"]:
    shape = (*queries.shape[:3], source.shape[2])
    alpha = workspace("alpha", *shape)
    if uniform:
        return alpha.fill_(1.0 / source.shape[2])
    scores = _products(workspace, queries, source.transpose(2, 3))
    return torch.softmax(scores, dim=3, out=alpha)


def _products(
    workspace: Workspace, left: Float[Tensor, "B K p q"], right: Float[Tensor, "B K q r"]
) -> Float[Tensor, "B K p r"]:
    """A product for each sequence and head; the next of this shape takes its place."""
    out = workspace("products", *left.shape[:3], right.shape[3])
    torch.bmm(left.flatten(0, 1), right.flatten(0, 1), out=out.flatten(0, 1))
    return out


def _apart(
    workspace: Workspace, name: str, states: Float[Tensor, "T B m"], heads: int
) -> Float[Tensor, "B K T d"]:
    """The part of every head, sequence by sequence."""
    parts = states.unflatten(2, (heads, -1)).permute(1, 2, 0, 3)
    return workspace(name, *parts.shape).copy_(parts)


def _together(
    workspace: Workspace, name: str, parts: Float[Tensor, "B K T d"]
) -> Float[Tensor, "T B m"]:
    """What `_apart` takes apart."""
    batch, heads, length, size = parts.shape
    states = workspace(name, length, batch, heads * size)
    states.unflatten(2, (heads, size)).copy_(parts.permute(2, 0, 1, 3))
    return states


def loss_and_gradient(
    sizes: Sizes,
    weights: Weights,
    workspace: Workspace,
    source: Int64[Tensor, "S B"],
    given: Int64[Tensor, "T B"],
    gold: Int64[Tensor, "T B"],
    gradient: Weights,
    uniform: bool = False,
) -> float:
    """The mean cross-entropy of the ``gold`` symbols; fills ``gradient``, of the shapes of ``weights``."""
    made = forward(sizes, weights, workspace, source, given, uniform)
    logits = made.logits.flatten(0, 1)
    logp = torch.log_softmax(logits, dim=1, out=logits)
    expected, rows = gold.flatten(), torch.arange(gold.numel())
    loss = -float(logp[rows, expected].mean())
    d_logits = logp.exp_()
    d_logits[rows, expected] -= 1
    d_logits /= gold.numel()
    gradient["embedding.weight"].zero_()
    d_context, d_state = _output_backward(sizes, weights, workspace, made, d_logits, gradient)
    d_source = _attention_backward(
        sizes, weights, workspace, made, d_context, d_state, gradient, uniform
    )
    _recurrent_backward(sizes, weights, workspace, made, d_source, d_state, gradient)
    return loss


def _output_backward(
    sizes: Sizes,
    weights: Weights,
    workspace: Workspace,
    made: Forward,
    d_logits: Float[Tensor, "N V"],
    gradient: Weights,
) -> tuple[Tensor, Tensor]:
    """The gradients of context and state, both ``(T, B, m)``."""
    output, shape = OUTPUTS[sizes.output], made.context.shape
    d_z = output.scores_backward(weights, workspace, made.z, d_logits, gradient)
    d_context, d_state = (
        d_z.t() @ read.flatten(0, 1) for read in (made.context, made.decoder.states[1:])
    )
    output.linear_backward(weights, Linear(d_context, d_state, d_z.sum(0)), gradient)
    sides = (
        ("gradient of context", made.linear.context),
        ("gradient of states", made.linear.state),
    )
    d_context, d_state = (
        torch.mm(d_z, part, out=workspace(name, *shape).flatten(0, 1)) for name, part in sides
    )
    return d_context.view(shape), d_state.view(shape)


def _attention_backward(
    sizes: Sizes,
    weights: Weights,
    workspace: Workspace,
    made: Forward,
    d_context: Float[Tensor, "T B m"],
    d_state: Float[Tensor, "T B m"],
    gradient: Weights,
    uniform: bool,
) -> Float[Tensor, "S B m"]:
    """The gradient of what the encoder gave; adds to that of the decoder's states, ``d_state``."""
    dc, h, alpha = (
        _apart(workspace, "gradient apart", d_context, sizes.heads),
        made.source,
        made.alpha,
    )
    d_source = _together(
        workspace, "gradient of source", _products(workspace, alpha.transpose(2, 3), dc)
    )
    if uniform:
        for name in gradient.keys() & {"attention.weight", "attention.bias"}:
            gradient[name].zero_()
        return d_source
    d_alpha = _products(workspace, dc, h.transpose(2, 3))
    d_scores = workspace("gradient of scores", *alpha.shape)
    torch.mul(alpha, d_alpha - (alpha * d_alpha).sum(3, keepdim=True), out=d_scores)
    d_source += _together(
        workspace, "more of source", _products(workspace, d_scores.transpose(2, 3), made.queries)
    )
    d_queries = _together(
        workspace, "gradient of queries", _products(workspace, d_scores, h)
    ).flatten(0, 1)
    torch.mm(d_queries.t(), made.decoder.states[1:].flatten(0, 1), out=gradient["attention.weight"])
    if "attention.bias" in gradient:
        torch.sum(d_queries, 0, out=gradient["attention.bias"])
    d_state.flatten(0, 1).addmm_(d_queries, weights["attention.weight"])
    return d_source


def _recurrent_backward(
    sizes: Sizes,
    weights: Weights,
    workspace: Workspace,
    made: Forward,
    d_source: Float[Tensor, "S B m"],
    d_state: Float[Tensor, "T B m"],
    gradient: Weights,
) -> None:
    start = _read_backward(weights, workspace, DECODER, made.decoder, d_state, gradient)
    parts = (part.chunk(len(sizes.sides), dim=-1) for part in (d_source, start.state, start.cell))
    for side, read, d_states, d_last, d_cell in zip(sizes.sides, made.encoder, *parts, strict=True):
        ordered = workspace("gradient of side", *d_states.shape).copy_(_turned(side, d_states))
        _read_backward(
            weights,
            workspace,
            side,
            read,
            ordered,
            gradient,
            (d_last.contiguous(), d_cell.contiguous()),
        )


def _read_backward(
    weights: Weights,
    workspace: Workspace,
    name: str,
    read: Pass,
    d_states: Float[Tensor, "T B H"],
    gradient: Weights,
    last: Start | None = None,
) -> Gradient:
    table = weights["embedding.weight"]
    found = lstm_backward(
        workspace, read, weights[name.format("weight_hh")], d_states, len(table), last
    )
    gradient[name.format("weight_hh")].copy_(found.weight)
    torch.mm(found.table.t(), table, out=gradient[name.format("weight_ih")])
    for bias in ("bias_ih", "bias_hh"):
        torch.sum(found.table, 0, out=gradient[name.format(bias)])
    gradient["embedding.weight"].addmm_(found.table, weights[name.format("weight_ih")])
    return found
