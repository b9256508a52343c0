"""Every experiment of the battery done by us, the plain way and by other libraries, on the same made-up texts of one length.

*ours* takes all instances together. The plain way of importance is Algorithm 1 of Jain & Wallace 2019 as it reads, a text at a time, but
the shortened texts of leave-one-out go through the model `TOGETHER` at a time; so they do for Captum, whose feature ablation is given
one switch per token that deletes it. The plain way of permutation is Algorithm 2 with numpy, an instance at a time; of correlation,
all pairs compared in Python; of the adversary, the paper's search in torch (`tests/oracles`); of the removals, one step after another
in numpy (`benchmarks/plain_removals.py`), where ours finds the smallest set besides.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from captum.attr import FeatureAblation, InputXGradient
from scipy.stats import kendalltau
from torch import Tensor

from attnaudit.core.ragged import Ragged
from attnaudit.core.random import shuffled
from attnaudit.experiments import make_experiment
from attnaudit.experiments.rows import row_streams
from attnaudit.models.batch import Batch, pad
from attnaudit.models.classifier import AttentionModel
from attnaudit.stats.measures import activate, tvd
from attnaudit.trace import Trace
from attnaudit.tracing.importance import gradient_importance
from attnaudit.tracing.leave_one_out import leave_one_out
from attnaudit.tracing.texts import BUDGET
from attnaudit.training.loop import torch_threads
from benchmarks.made_up import made_up_texts, made_up_trace, untrained_model
from benchmarks.plain_removals import ERASED, ERASER, plain_comprehensiveness, plain_erasure
from tests.oracles.kendall import naive_kendall
from tests.oracles.relaxed_adversary import accepted_divergence, naive_search, padded

TOGETHER = 128  # shortened texts in one pass of the model
POSITIONS = 1 << 15  # tokens of a made-up trace
HIDDEN, K, EPSILON, PERMUTATIONS = 256, 5, 0.01, 100
PAPER = {"permutation": {"permutations": PERMUTATIONS}}  # what the plain way does
CORRELATIONS = (("alpha", "gradient"), ("alpha", "loo"), ("gradient", "loo"))
ENCODERS = ("bilstm", "cnn", "average")


@dataclass(frozen=True)
class Side:
    """One way to do an experiment: ``call`` maps row numbers to values ``(rows, n)``, ``together`` of the ``count`` rows at a time.

    A side that draws random numbers of its own has in ``same_draws`` the same call with ours, to compare the values by.
    """

    call: Callable[[np.ndarray], np.ndarray]
    together: int
    count: int
    same_draws: Callable[[np.ndarray], np.ndarray] | None = None


def batch_rows(length: int) -> int:
    """How many texts the collector puts in one batch."""
    return max(BUDGET["cpu"] // (length + 2), 1)


def of_texts(
    measure: Callable[[AttentionModel, Batch], Tensor],
    encoder: str,
    length: int,
    one_by_one: bool = False,
    threads: int = 1,
) -> Side:
    """A measure of every token, texts in batches as the collector makes them; with several ``threads`` each has a batch to itself."""
    model, count = untrained_model(encoder), threads * batch_rows(length)
    inputs = made_up_texts(length, count)

    def of_batch(rows: np.ndarray) -> np.ndarray:
        batch = inputs.batch(rows)
        return measure(model, batch)[batch.attended].reshape(len(rows), -1).double().numpy()

    def side_by_side(rows: np.ndarray) -> np.ndarray:
        with torch_threads(1), ThreadPoolExecutor(threads) as pool:
            return np.concatenate(list(pool.map(of_batch, np.array_split(rows, threads))))

    return Side(of_batch if threads == 1 else side_by_side, 1 if one_by_one else count, count)


def as_collected(
    measure: Callable[[AttentionModel, Batch], Tensor], encoder: str, length: int
) -> Side:
    return of_texts(measure, encoder, length, threads=torch.get_num_threads())


def our_leave_one_out(model: AttentionModel, batch: Batch) -> Tensor:
    with torch.no_grad():
        return leave_one_out(model, batch, model(batch))


def our_gradients(model: AttentionModel, batch: Batch) -> Tensor:
    found = gradient_importance(model, batch)
    return torch.stack([found.held, found.full], dim=-1)


def with_attention_held(model: AttentionModel, batch: Batch, embedded: Tensor) -> Tensor:
    done = model.from_embedded(embedded, batch)
    return model.probabilities(
        model.logits_from_attention(done.alpha.detach(), done.hidden, done.question_terms, batch)
    )[:, 0]


def with_attention(model: AttentionModel, batch: Batch, embedded: Tensor) -> Tensor:
    return model.probabilities(model.from_embedded(embedded, batch).logits)[:, 0]


def plain_gradients(model: AttentionModel, batch: Batch) -> Tensor:
    """Forward and backward for the one, and again for the other."""

    def times_input(probability: Callable[[AttentionModel, Batch, Tensor], Tensor]) -> Tensor:
        embedded = model.embedding(batch.ids).requires_grad_()
        probability(model, batch, embedded).sum().backward()
        assert embedded.grad is not None
        return (embedded.grad * embedded.detach()).sum(-1).abs()

    return torch.stack([times_input(with_attention_held), times_input(with_attention)], dim=-1)


def captum_gradients(model: AttentionModel, batch: Batch) -> Tensor:
    embedded = model.embedding(batch.ids).requires_grad_()
    both = [
        InputXGradient(partial(f, model, batch)).attribute(embedded).detach()
        for f in (with_attention_held, with_attention)
    ]
    return torch.stack(both, dim=-1).sum(-2).abs()


def deleting(
    measure: Callable[[AttentionModel, np.ndarray], Tensor], encoder: str, length: int
) -> Side:
    """A measure of every token of one text."""
    model, count = untrained_model(encoder), batch_rows(length)
    ids = made_up_texts(length, count).ids
    return Side(
        lambda rows: np.stack([measure(model, ids[row]).double().numpy() for row in rows]), 1, count
    )


@torch.no_grad()
def predictions(model: AttentionModel, texts: list[np.ndarray]) -> Tensor:
    batch = pad(Ragged.from_rows(texts, np.int64), np.arange(len(texts)))
    return model.probabilities(model(batch).logits.double())[:, 0]


def plain_leave_one_out(model: AttentionModel, ids: np.ndarray) -> Tensor:
    """Every shortened text through the whole model."""
    shortened = [
        predictions(
            model, [np.delete(ids, t) for t in range(start, min(start + TOGETHER, len(ids)))]
        )
        for start in range(0, len(ids), TOGETHER)
    ]
    return (predictions(model, [ids]) - torch.cat(shortened)).abs()


def captum_leave_one_out(model: AttentionModel, ids: np.ndarray) -> Tensor:
    """Feature ablation of a switch per token; a token that is switched off is deleted."""

    def predict(kept: Tensor) -> Tensor:
        return predictions(model, [ids[switches] for switches in kept.bool().numpy()])

    switches = torch.ones(1, len(ids), dtype=torch.float64)
    return FeatureAblation(predict).attribute(switches, perturbations_per_eval=TOGETHER)[0].abs()


def trace_rows(length: int) -> int:
    return max(POSITIONS // length, 1)


def of_trace(name: str, columns: tuple[str, ...], length: int) -> Side:
    """One of our experiments on a trace."""
    return on_trace(name, columns, made_up_trace(length, trace_rows(length)))


def on_trace(name: str, columns: tuple[str, ...], trace: Trace) -> Side:
    experiment = make_experiment(name, PAPER.get(name))

    def call(rows: np.ndarray) -> np.ndarray:
        return (
            experiment(trace if len(rows) == len(trace) else trace.take(rows))
            .select(columns)
            .to_numpy()
        )

    return Side(call, len(trace), len(trace))


def plain_permutation(length: int) -> Side:
    trace = made_up_trace(length, trace_rows(length))
    streams, random = row_streams(trace, 0, "permutation"), np.random.default_rng(0)

    def call(rows: np.ndarray) -> np.ndarray:
        orders = (
            [random.permutation(trace.alpha[row]) for _ in range(PERMUTATIONS)] for row in rows
        )
        return np.array(
            [
                [median_change(trace, row, np.array(order))]
                for row, order in zip(rows, orders, strict=True)
            ]
        )

    def same_draws(rows: np.ndarray) -> np.ndarray:
        return np.array(
            [
                [median_change(trace, row, our_orders(trace.alpha[row], streams[row]))]
                for row in rows
            ]
        )

    return Side(call, 1, len(trace), same_draws)


def median_change(trace: Trace, row: int, orders: np.ndarray) -> float:
    """Median TVD between the output under each of the attentions ``orders`` and that under the model's own."""
    readout = trace.readout
    contribution, offset = readout.contribution[row], readout.offset[row]
    before = activate(trace.alpha[row][None] @ contribution + offset, readout.activation)
    after = activate(orders @ contribution + offset, readout.activation)
    return float(np.median(tvd(after, before.repeat(len(orders), axis=0))))


def our_orders(alpha: np.ndarray, stream: np.ndarray) -> np.ndarray:
    """One row's attention as our experiment shuffles it."""
    weights, orders = Ragged.from_rows([alpha]), np.empty((PERMUTATIONS, len(alpha)))
    for k in range(PERMUTATIONS):
        weights = shuffled(weights, np.array([stream]), k)
        orders[k] = weights.values
    return orders


def row_by_row_correlation(
    kendall: Callable[[np.ndarray, np.ndarray], tuple[float, float]], length: int
) -> Side:
    """Tau and p of the three pairs, an instance at a time."""
    trace = made_up_trace(length, trace_rows(length))
    scores = {
        name: trace.ragged(name).values.astype(np.float64).reshape(-1, length)
        for name in ("alpha", "gradient", "loo")
    }

    def call(rows: np.ndarray) -> np.ndarray:
        return np.array(
            [
                np.ravel(
                    [kendall(scores[one][row], scores[other][row]) for one, other in CORRELATIONS]
                )
                for row in rows
            ]
        )

    return Side(call, 1, len(trace))


def plain_adversary(length: int) -> Side:
    """The paper's 500 steps of Adam on padded batches, context vectors of `HIDDEN` numbers rebuilt in every step."""
    together = min(batch_rows(length), 32)
    trace = made_up_trace(length, trace_rows(length))
    whole, attention = padded(
        trace.take(np.arange(min(3 * together, len(trace)))), HIDDEN, torch.float32
    )
    generator = torch.Generator().manual_seed(0)

    def call(rows: np.ndarray) -> np.ndarray:
        model = replace(
            whole, hidden=whole.hidden[rows], bias=whole.bias[rows], mask=whole.mask[rows]
        )
        ends = naive_search(
            model,
            attention[rows],
            3.0 * torch.randn(len(rows), K, length, generator=generator),
            EPSILON,
        )
        return accepted_divergence(model, attention[rows], ends, EPSILON).double().numpy()[:, None]

    return Side(call, together, len(attention))


def row_by_row(
    plain: Callable[[Trace, int, np.random.Generator], list[float]], length: int
) -> Side:
    """A plain way, an instance at a time."""
    trace, random = made_up_trace(length, trace_rows(length)), np.random.default_rng(0)
    return Side(lambda rows: np.array([plain(trace, row, random) for row in rows]), 1, len(trace))


def importance(encoder: str) -> dict[str, dict[str, Callable[[int], Side]]]:
    return {
        f"leave-one-out, {encoder}": {
            "ours": partial(as_collected, our_leave_one_out, encoder),
            "plain": partial(deleting, plain_leave_one_out, encoder),
            "Captum": partial(deleting, captum_leave_one_out, encoder),
        },
        f"gradients, {encoder}": {
            "ours": partial(as_collected, our_gradients, encoder),
            "plain": partial(of_texts, plain_gradients, encoder, one_by_one=True),
            "Captum": partial(of_texts, captum_gradients, encoder),
        },
    }


TAUS = tuple(
    f"{kind}_{name}" for name in ("gradient", "loo", "gradient_loo") for kind in ("tau", "p")
)
OURS = {
    "permutation": ("median_delta_y",), "correlation": TAUS, "adversary": ("emax_jsd",), "erasure": ERASED, "comprehensiveness": ERASER,
}  # fmt: skip
SIDES: dict[str, dict[str, Callable[[int], Side]]] = {
    **importance("bilstm"), **importance("cnn"), **importance("average"),
    "permutation": {"ours": partial(of_trace, "permutation", OURS["permutation"]), "plain": plain_permutation},
    "correlation": {
        "ours": partial(of_trace, "correlation", TAUS),
        "plain": partial(row_by_row_correlation, naive_kendall),
        "scipy": partial(row_by_row_correlation, partial(kendalltau, method="asymptotic")),
    },
    "adversary": {"ours": partial(of_trace, "adversary", OURS["adversary"]), "plain": plain_adversary},
    "erasure": {"ours": partial(of_trace, "erasure", ERASED), "plain": partial(row_by_row, plain_erasure)},
    "comprehensiveness": {
        "ours": partial(of_trace, "comprehensiveness", ERASER), "plain": partial(row_by_row, plain_comprehensiveness),
    },
}  # fmt: skip
