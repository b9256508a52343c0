"""Every experiment done by us, the plain way and by other libraries, on generated texts.

*ours* takes all instances together. The plain way of importance is Algorithm 1 of Jain & Wallace
2019 as it reads, a text at a time, but the shortened texts of leave-one-out go through the model
`TOGETHER` at a time; so they do for Captum, whose feature ablation gets one switch per token that
deletes it. The plain way of permutation is Algorithm 2 with numpy, an instance at a time; of
correlation, all pairs compared in Python; of the adversary, the paper's search in torch
(`tests/oracles`); of removals, one step after another in numpy (`benchmarks/plain_removals.py`),
where ours also finds the smallest set.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from tests.oracles.relaxed_adversary import naive_search, padded, torch_jsd, torch_tvd

TOGETHER = 128  # shortened texts in one pass of the model
POSITIONS = 1 << 15  # tokens of a generated trace
HIDDEN, K, EPSILON, PERMUTATIONS = 256, 5, 0.01, 100
PAPER = {"permutation": {"permutations": PERMUTATIONS}}  # as many as the plain way
SCORES = ("alpha", "gradient", "loo")
ENCODERS = ("bilstm", "cnn", "average")
Values = Callable[[np.ndarray], np.ndarray]
Importance = Callable[[AttentionModel, Batch], Tensor]
ImportanceOfText = Callable[[AttentionModel, np.ndarray], Tensor]


@dataclass(frozen=True)
class Side:
    """One way to do an experiment.

    Attributes:
        call: Function from row numbers to values ``(rows, n)``.
        together: Number of rows of a call.
        count: Number of rows.
        same_draws: The same with our random numbers, for a side that draws its own.
    """

    call: Values
    together: int
    count: int
    same_draws: Values | None = None

    def chunks(self, rows: np.ndarray) -> list[np.ndarray]:
        """Divide rows into calls."""
        return np.split(rows, range(self.together, len(rows), self.together))


def batch_rows(length: int) -> int:
    """Return how many texts the collector puts in one batch."""
    return max(BUDGET["cpu"] // (length + 2), 1)


def of_texts(
    measure: Importance, encoder: str, length: int, one_by_one: bool = False, threads: int = 1
) -> Side:
    """Measure every token, in batches as the collector makes them, one on each thread."""
    model, count = untrained_model(encoder), threads * batch_rows(length)
    inputs = made_up_texts(length, count)

    def of_batch(rows: np.ndarray) -> np.ndarray:
        batch = inputs.batch(rows)
        return measure(model, batch)[batch.attended].reshape(len(rows), -1).double().numpy()

    def side_by_side(rows: np.ndarray) -> np.ndarray:
        with torch_threads(1), ThreadPoolExecutor(threads) as pool:
            return np.concatenate(list(pool.map(of_batch, np.array_split(rows, threads))))

    return Side(of_batch if threads == 1 else side_by_side, 1 if one_by_one else count, count)


def as_collected(measure: Importance, encoder: str, length: int) -> Side:
    """Measure every token, on all threads."""
    return of_texts(measure, encoder, length, threads=torch.get_num_threads())


def our_leave_one_out(model: AttentionModel, batch: Batch) -> Tensor:
    """Compute leave-one-out as the collector does."""
    with torch.no_grad():
        return leave_one_out(model, batch, model(batch))


def our_gradients(model: AttentionModel, batch: Batch) -> Tensor:
    """Compute both gradients as the collector does."""
    found = gradient_importance(model, batch)
    return torch.stack([found.held, found.full], dim=-1)


def with_attention_held(model: AttentionModel, batch: Batch, embedded: Tensor) -> Tensor:
    """Predict with attention as a constant."""
    done = model.from_embedded(embedded, batch)
    alpha = done.alpha.detach()
    logits = model.logits_from_attention(alpha, done.hidden, done.offset, batch)
    return model.probabilities(logits)[:, 0]


def with_attention(model: AttentionModel, batch: Batch, embedded: Tensor) -> Tensor:
    """Predict with attention that depends on the embeddings."""
    return model.probabilities(model.from_embedded(embedded, batch).logits)[:, 0]


def plain_gradients(model: AttentionModel, batch: Batch) -> Tensor:
    """Compute gradient times input in two passes, one for each way to predict."""

    def times_input(probability: Callable[[AttentionModel, Batch, Tensor], Tensor]) -> Tensor:
        embedded = model.embedding(batch.ids).requires_grad_()
        probability(model, batch, embedded).sum().backward()
        assert embedded.grad is not None
        return (embedded.grad * embedded.detach()).sum(-1).abs()

    return torch.stack([times_input(with_attention_held), times_input(with_attention)], dim=-1)


def captum_gradients(model: AttentionModel, batch: Batch) -> Tensor:
    """Compute gradient times input with Captum."""
    embedded = model.embedding(batch.ids).requires_grad_()
    both = [
        InputXGradient(partial(predict, model, batch)).attribute(embedded).detach()
        for predict in (with_attention_held, with_attention)
    ]
    return torch.stack(both, dim=-1).sum(-2).abs()


def of_each_text(measure: ImportanceOfText, encoder: str, length: int) -> Side:
    """Measure every token, one text at a time."""
    model, count = untrained_model(encoder), batch_rows(length)
    ids = made_up_texts(length, count).ids
    return one_by_one(lambda row: measure(model, ids[row]).double().numpy(), count)


@torch.no_grad()
def predictions(model: AttentionModel, texts: list[np.ndarray]) -> Tensor:
    """Predict texts of any length, as one batch."""
    batch = pad(Ragged.from_rows(texts, np.int64), np.arange(len(texts)))
    return model.probabilities(model(batch).logits.double())[:, 0]


def plain_leave_one_out(model: AttentionModel, ids: np.ndarray) -> Tensor:
    """Predict every shortened text with the whole model."""
    shortened = [
        predictions(model, [np.delete(ids, t) for t in part])
        for part in np.split(np.arange(len(ids)), range(TOGETHER, len(ids), TOGETHER))
    ]
    return (predictions(model, [ids]) - torch.cat(shortened)).abs()


def captum_leave_one_out(model: AttentionModel, ids: np.ndarray) -> Tensor:
    """Ablate a switch per token; a token that is switched off is deleted."""

    def predict(kept: Tensor) -> Tensor:
        return predictions(model, [ids[switches] for switches in kept.bool().numpy()])

    switches = torch.ones(1, len(ids), dtype=torch.float64)
    return FeatureAblation(predict).attribute(switches, perturbations_per_eval=TOGETHER)[0].abs()


def one_by_one(
    values: Callable[[int], object], count: int, same_draws: Callable[[int], object] | None = None
) -> Side:
    """Compute one row at a time."""

    def over(rows_of: Callable[[int], object]) -> Values:
        return lambda rows: np.array([rows_of(row) for row in rows.tolist()])

    return Side(over(values), 1, count, None if same_draws is None else over(same_draws))


def ours(name: str, columns: tuple[str, ...], trace: Trace) -> Side:
    """Run one of our experiments."""
    experiment = make_experiment(name, PAPER.get(name))

    def call(rows: np.ndarray) -> np.ndarray:
        part = trace if len(rows) == len(trace) else trace.take(rows)
        return experiment(part).select(columns).to_numpy()

    return Side(call, len(trace), len(trace))


def plain_permutation(trace: Trace) -> Side:
    """Shuffle attention with numpy."""
    streams, random = row_streams(trace, 0, "permutation"), np.random.default_rng(0)

    def median(row: int) -> list[float]:
        orders = [random.permutation(trace.alpha[row]) for _ in range(PERMUTATIONS)]
        return [median_change(trace, row, np.array(orders))]

    def same_draws(row: int) -> list[float]:
        return [median_change(trace, row, our_orders(trace.alpha[row], streams[row]))]

    return one_by_one(median, len(trace), same_draws)


def median_change(trace: Trace, row: int, orders: np.ndarray) -> float:
    """Return the median TVD between the outputs under each of ``orders`` and the model's own."""
    readout = trace.readout
    contribution, offset = readout.contribution[row], readout.offset[row]
    before = activate(trace.alpha[row][None] @ contribution + offset, readout.activation)
    after = activate(orders @ contribution + offset, readout.activation)
    return float(np.median(tvd(after, before.repeat(len(orders), axis=0))))


def our_orders(alpha: np.ndarray, stream: np.ndarray) -> np.ndarray:
    """Shuffle one row's attention as our experiment does."""
    weights, orders = Ragged.from_rows([alpha]), np.empty((PERMUTATIONS, len(alpha)))
    for k in range(PERMUTATIONS):
        weights = shuffled(weights, np.array([stream]), k)
        orders[k] = weights.values
    return orders


def row_by_row_correlation(
    kendall: Callable[[np.ndarray, np.ndarray], tuple[float, float]], trace: Trace
) -> Side:
    """Compute tau and p of the three pairs of scores."""
    scores = {name: trace.ragged(name) for name in SCORES}

    def taus(row: int) -> np.ndarray:
        alpha, gradient, loo = (scores[name][row].astype(np.float64) for name in SCORES)
        pairs = (alpha, gradient), (alpha, loo), (gradient, loo)
        return np.ravel([kendall(one, other) for one, other in pairs])

    return one_by_one(taus, len(trace))


scipy_correlation = partial(row_by_row_correlation, partial(kendalltau, method="asymptotic"))


def plain_adversary(trace: Trace) -> Side:
    """Search with 500 steps of Adam on padded batches, rebuilding context vectors in every step.

    A trace has no hidden states, so some of `HIDDEN` numbers are made that give its readout.
    """
    generator = torch.Generator().manual_seed(0)

    def call(rows: np.ndarray) -> np.ndarray:
        model, alpha = padded(trace.take(rows), HIDDEN, torch.float32)
        scores = 3.0 * torch.randn(len(rows), K, alpha.shape[1], generator=generator)
        ends = naive_search(model, alpha, scores, EPSILON)
        own = alpha[:, None]
        is_within = torch_tvd(model.predict(ends), model.predict(own)) <= EPSILON
        largest = torch.where(is_within, torch_jsd(ends, own.expand_as(ends)), 0.0).amax(1)
        return largest.double().numpy()[:, None]

    together = min(batch_rows(int(trace.alpha.lengths.max())), 32)
    return Side(call, together, len(trace))


def plain_removals(
    plain: Callable[[Trace, int, np.random.Generator], list[float]], trace: Trace
) -> Side:
    """Remove weights step by step."""
    random = np.random.default_rng(0)
    return one_by_one(lambda row: plain(trace, row, random), len(trace))


def importance(encoder: str) -> dict[str, dict[str, Callable[[int], Side]]]:
    """Return the sides of both importance measures of an encoder."""
    return {
        f"leave-one-out, {encoder}": {
            "ours": partial(as_collected, our_leave_one_out, encoder),
            "plain": partial(of_each_text, plain_leave_one_out, encoder),
            "Captum": partial(of_each_text, captum_leave_one_out, encoder),
        },
        f"gradients, {encoder}": {
            "ours": partial(as_collected, our_gradients, encoder),
            "plain": partial(of_texts, plain_gradients, encoder, one_by_one=True),
            "Captum": partial(of_texts, captum_gradients, encoder),
        },
    }


def of_length(side: Callable[[Trace], Side], length: int) -> Side:
    """Apply a side to a generated trace."""
    return side(made_up_trace(length, max(POSITIONS // length, 1)))


TAUS = tuple(f"{kind}_{name}" for name in (*SCORES[1:], "gradient_loo") for kind in ("tau", "p"))
OURS = {
    "permutation": ("median_delta_y",),
    "correlation": TAUS,
    "adversary": ("emax_jsd",),
    "erasure": ERASED,
    "comprehensiveness": ERASER,
}
OTHERS: dict[str, dict[str, Callable[[Trace], Side]]] = {
    "permutation": {"plain": plain_permutation},
    "correlation": {
        "plain": partial(row_by_row_correlation, naive_kendall),
        "scipy": scipy_correlation,
    },
    "adversary": {"plain": plain_adversary},
    "erasure": {"plain": partial(plain_removals, plain_erasure)},
    "comprehensiveness": {"plain": partial(plain_removals, plain_comprehensiveness)},
}
SIDES: dict[str, dict[str, Callable[[int], Side]]] = {
    name: sides for encoder in ENCODERS for name, sides in importance(encoder).items()
} | {
    name: {
        side: partial(of_length, way)
        for side, way in {"ours": partial(ours, name, columns), **OTHERS[name]}.items()
    }
    for name, columns in OURS.items()
}
"""The sides of every experiment: functions from a number of tokens."""
